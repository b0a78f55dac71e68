"""`ansible-galaxy install` as data: its files, arguments and environment, and what its output means; pure."""

from __future__ import annotations

import configparser
import io
import json
import os
import shutil
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from exocomp.errors import ExocompError
from exocomp.vendoring.requirements import Requirements, Wanted

# Of the daemon's environment: the way out, whom to trust, the operator's servers and tokens.
_PASSED = frozenset(
    {
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *(
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
            "REQUESTS_CA_BUNDLE",
            "CURL_CA_BUNDLE",
            "GIT_SSL_CAINFO",
            "GIT_SSL_CAPATH",
        ),
        *("PATH", "SSH_AUTH_SOCK", "LD_LIBRARY_PATH"),
    }
)
_PASSED_PREFIX = "ANSIBLE_GALAXY_"
_CONFIG_SECTIONS = ("galaxy", "galaxy_server.")
CONFIG = "ansible.cfg"


class Order(NamedTuple):
    """One run of ansible-galaxy; `what` is collections or roles."""

    what: str
    argv: tuple[str, ...]


def program(ansible_playbook: str) -> str:
    """The ansible-galaxy beside the ansible-playbook that runs the plays; raises ExocompError when there is none.

    `ansible_playbook` is the setting; empty for the one of exocomp's own environment.
    """
    named = shutil.which(ansible_playbook) if ansible_playbook else None
    if ansible_playbook and named is None:
        raise ExocompError(
            f"the setting ansible_playbook names no program: {ansible_playbook}",
            hint="correct it, or remove it to use the ansible of exocomp's own environment",
        )
    beside = Path(named).absolute() if named else Path(sysconfig.get_path("scripts")) / "ansible-playbook"
    for place in dict.fromkeys((beside.parent, beside.resolve().parent)):
        if (place / "ansible-galaxy").is_file():
            return str(place / "ansible-galaxy")
    raise ExocompError(f"there is no ansible-galaxy beside {beside}", hint="install ansible-core there")


def orders(program: str, wanted: Requirements, work: Path, collections: Path, roles: Path) -> tuple[Order, ...]:
    """What to run, in order; each reads the file that `files` names for it in `work`."""
    found = []
    if wanted.collections:
        words = ("collection", "install", "-r", str(work / "collections.yml"), "-p", str(collections))
        found.append(Order("collections", (program, *words)))
    if wanted.roles:
        words = ("role", "install", "-r", str(work / "roles.yml"), "-p", str(roles))
        found.append(Order("roles", (program, *words)))
    return tuple(found)


def files(wanted: Requirements, config: str) -> dict[str, str]:
    """Files for the work directory: the requirements as ansible-galaxy takes them, and what of an ansible.cfg is
    about Galaxy: its servers, never its plugins or paths."""
    return {
        "collections.yml": json.dumps({"collections": [_collection(each) for each in wanted.collections]}),
        "roles.yml": json.dumps([_role(each) for each in wanted.roles]),
        CONFIG: _galaxy_sections(config),
    }


def environment(env: Mapping[str, str], work: Path, collections: Path) -> dict[str, str]:
    """By allow-list from `env`, which is the daemon's; whatever is kept between runs lies in `work`."""
    passed = {name: value for name, value in env.items() if name in _PASSED or name.startswith(_PASSED_PREFIX)}
    return {
        "PATH": os.defpath,
        **passed,
        "LC_ALL": "C.UTF-8",
        "HOME": str(work / "home"),
        "TMPDIR": str(work / "tmp"),
        "ANSIBLE_HOME": str(work / "home"),
        "ANSIBLE_LOCAL_TEMP": str(work / "tmp"),
        "ANSIBLE_CONFIG": str(work / CONFIG),
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_GALAXY_CACHE_DIR": str(work / "home" / "galaxy_cache"),
        "ANSIBLE_GALAXY_DISPLAY_PROGRESS": "0",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
        # Nothing may ask a question, and git starts no helper program that a URL names.
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ControlPath=none",
    }


def _collection(wanted: Wanted) -> dict[str, Any]:
    fields = {"name": wanted.name, "version": wanted.version, "source": wanted.source, "type": wanted.type}
    found: dict[str, Any] = {key: value for key, value in fields.items() if value}
    if wanted.signatures:
        found["signatures"] = list(wanted.signatures)
    return found


def _role(wanted: Wanted) -> dict[str, str]:
    fields = {"src": wanted.source, "name": wanted.name, "version": wanted.version}
    if wanted.type == "git":
        fields["scm"] = "git"
    return {key: value for key, value in fields.items() if value}


def _galaxy_sections(text: str) -> str:
    given = configparser.ConfigParser(inline_comment_prefixes=(";",), interpolation=None)
    try:
        given.read_string(text)
    except configparser.Error as error:
        raise ExocompError(f"the ansible.cfg beside the requirements can't be read: {error}") from None
    kept = configparser.ConfigParser(interpolation=None)
    for section in given.sections():
        if section.startswith(_CONFIG_SECTIONS):
            kept[section] = {key: value for key, value in given[section].items() if key != "cache_dir"}
    out = io.StringIO()
    kept.write(out)
    return out.getvalue()
