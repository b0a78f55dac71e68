"""The engine: which binary runs a workspace, and what it says it is."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import msgspec

from exocomp.errors import WrongUsage

NAMES = ("tofu", "terraform")
INSTALL = (
    "install OpenTofu (https://opentofu.org/docs/intro/install/) or Terraform "
    "(https://developer.hashicorp.com/terraform/install), or give its path with --engine or the setting `engine`"
)
# `version -json` calls both products' version "terraform_version"; only the text names the product.
_VERSION = re.compile(r"^(Terraform|OpenTofu) v(\S+)", re.MULTILINE)
_VERSION_TIMEOUT_S = 60.0


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is absolute, `product` is "tofu" or "terraform"."""

    path: str
    product: str
    version: str


def find(wanted: str | None) -> Engine:
    """The engine named "tofu", "terraform" or by a path; by default tofu when present, else terraform.

    Raises WrongUsage when there is none or it does not run.
    """
    if wanted and "/" in wanted:
        path = os.path.abspath(os.path.expanduser(wanted))
        if not (os.path.isfile(path) and os.access(path, os.X_OK)):
            raise WrongUsage(f"engine {wanted} is not an executable file", hint=INSTALL)
        return _ask(path)
    if wanted and wanted not in NAMES:
        raise WrongUsage(f"engine {wanted!r} is neither tofu, terraform nor a path", hint=INSTALL)
    for name in (wanted,) if wanted else NAMES:
        if (found := shutil.which(name)) is not None:
            return _ask(os.path.abspath(found))
    raise WrongUsage(f"there is no {wanted or 'tofu or terraform'} on PATH", hint=INSTALL)


def _ask(path: str) -> Engine:
    status = Path(path).stat()
    return _version(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=16)
def _version(path: str, _changed_ns: int, _size: int) -> Engine:
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.environ.get("HOME", "/"),
        "CHECKPOINT_DISABLE": "1",
        "TF_CLI_CONFIG_FILE": os.devnull,
    }
    try:
        done = subprocess.run(
            [path, "version"],
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WrongUsage(f"engine {path} does not run: {error}", hint=INSTALL) from None
    said = _VERSION.search(done.stdout.decode("utf-8", "replace"))
    if done.returncode != 0 or said is None:
        first = next(iter((done.stderr or done.stdout).decode("utf-8", "replace").split("\n")), "").strip()
        raise WrongUsage(f"engine {path} does not say its version (exit {done.returncode}: {first})", hint=INSTALL)
    return Engine(path=path, product="tofu" if said[1] == "OpenTofu" else "terraform", version=said[2])
