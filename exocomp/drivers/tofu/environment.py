"""The environment of an engine: an allow-list, and what the operator lets through."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from exocomp.drivers.tofu.working_copy import WorkingCopy

# Each of these silently changes what a command does or which state it does it to.
_NEVER = ("TF_CLI_ARGS*", "TF_WORKSPACE", "TF_LOG*", "TF_INPUT", "TF_DATA_DIR", "TF_PLUGIN_CACHE_DIR", "EXOCOMP_*")
OF_ATTEMPT = ("home", "tmp")  # what an engine writes of its attempt
_LONGEST_TMPDIR = 80  # a provider's socket lies in it, and sun_path ends at 107 bytes (unix(7))


def environment(
    env: Mapping[str, str], pass_env: tuple[str, ...], attempt: Path, copy: WorkingCopy
) -> dict[str, str]:
    """`env` is the daemon's; of it the names in `pass_env` (a trailing * allowed) get through, and PATH."""
    home, tmp = (attempt / name for name in OF_ATTEMPT)
    for folder in (home, tmp):
        folder.mkdir(mode=0o700, exist_ok=True)
    passed = {
        name: value
        for name, value in env.items()
        if any(_matches(name, wanted) for wanted in pass_env) and not any(fnmatchcase(name, n) for n in _NEVER)
    }
    return {
        "PATH": env.get("PATH", os.defpath),
        "HOME": str(home),
        "TMPDIR": str(tmp) if len(os.fsencode(tmp)) <= _LONGEST_TMPDIR else tempfile.gettempdir(),
        "LC_ALL": "C.UTF-8",
        "TF_CLI_CONFIG_FILE": os.devnull,
        **passed,
        "TF_IN_AUTOMATION": "1",
        "CHECKPOINT_DISABLE": "1",
        "TF_DATA_DIR": str(copy.engine_dir),
        "TF_PLUGIN_CACHE_DIR": str(copy.plugins),
    }


def _matches(name: str, wanted: str) -> bool:
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted
