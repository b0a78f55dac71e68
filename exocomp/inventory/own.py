"""Inventory files of the operator's own: YAML and JSON are kept as they are, INI becomes a map."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import yaml

from exocomp.errors import WrongUsage
from exocomp.inventory import shape

LARGEST = 16 << 20
_MOST = 4_000_000  # values that a file of that size can spell out
_BESIDE = ("group_vars", "host_vars")


class _Opaque(str):
    """A value with a tag of ansible's, such as !vault, which only ansible reads."""


class _Reader(yaml.SafeLoader):
    pass


def _tagged(reader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> _Opaque:
    return _Opaque(suffix)


_Reader.add_multi_constructor("!", _tagged)


def read(file: Path) -> bytes:
    """The text of an inventory file; raises WrongUsage for what is none."""
    try:
        with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:  # a FIFO
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise WrongUsage(f"inventory file {file} is not a regular file", hint="name one file")
            if status.st_size > LARGEST:
                raise WrongUsage(f"{file} is larger than {LARGEST >> 20} MiB, which no inventory file is")
            text = stream.read(LARGEST)
    except OSError as error:
        raise WrongUsage(f"inventory file {file}: {error.strerror}", hint="the daemon must read it") from None
    if text.startswith(b"#!") and os.access(file, os.X_OK):
        raise WrongUsage(
            f"{file} is an inventory script, and an inventory is what stands in a file",
            hint=f"take what it answers: ansible-inventory -i {file} --list --yaml > hosts.yml",
        )
    try:
        text.decode()
    except UnicodeDecodeError:
        raise WrongUsage(f"inventory file {file} is not UTF-8 text") from None
    return text


def as_map(text: bytes, file: Path) -> Any:
    """The file as a map, or None when it is not YAML, or no map: INI, then. Raises WrongUsage for broken YAML."""
    is_named_so = file.suffix in (".yml", ".yaml", ".json")
    try:
        content = yaml.load(text, _Reader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if is_named_so:
            line = " ".join(str(error).split())
            raise WrongUsage(f"{file} is not YAML: {line[:300]}", hint="correct the file") from None
        return None
    if not _is_bounded(content):
        raise WrongUsage(f"{file} has aliases that hold one another", hint="write out what they stand for")
    if content is None and (is_named_so or not text.strip()):
        return {}
    # Ansible's INI reader would take JSON's first brace for a host.
    return content if isinstance(content, dict) or is_named_so or text.lstrip().startswith((b"{", b"[{")) else None


def _is_bounded(content: Any) -> bool:
    """Whether it can be walked to its end: YAML's aliases make a few lines as large as one likes, or endless."""
    waiting, seen = [content], 0
    while waiting and seen <= _MOST:
        value = waiting.pop()
        seen += 1
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return seen <= _MOST


def check(content: Any, text: bytes | None, file: Path) -> tuple[bytes | dict[str, Any], str]:
    """What to keep of a file, its text when it is one that the map was read from, and what is to be told of it.

    Raises WrongUsage for what is no map of groups.
    """
    kept = shape.check(content, file.name)
    beside = [name for name in _BESIDE if (file.parent / name).is_dir()]
    told = f"; {' and '.join(beside)} beside it not taken: they belong beside the playbook" if beside else ""
    return (text if text is not None and kept == content else kept), told
