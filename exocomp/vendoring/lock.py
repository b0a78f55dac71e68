"""The lock of a vendored tree: what lies in it, in which version, from where, and with which content."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from exocomp.errors import ExocompError

LOCK = "lock.json"


class Locked(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is collection or role; `digest` is the sha256 of the installed tree (tree.digest)."""

    kind: str
    name: str
    version: str
    source: str
    digest: str


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """`replaced` is the name of the tree that was current before this one."""

    entries: tuple[Locked, ...]
    requirements: str
    replaced: str | None = None


def encode(lock: Lock) -> bytes:
    return msgspec.json.format(msgspec.json.encode(lock), indent=2) + b"\n"


def read(tree: Path) -> Lock:
    """The lock of a tree; raises ExocompError when it is not there or not one."""
    try:
        return msgspec.json.decode((tree / LOCK).read_bytes(), type=Lock)
    except (OSError, msgspec.DecodeError) as error:
        raise ExocompError(
            f"the vendored tree {tree} is damaged: {error}",
            hint="`exocomp playbook vendor --requirements …` again: it puts a new one in its place",
        ) from None


def digest(lock: Lock) -> str:
    """The sha256 over the entries: the same content has the same one, whenever and wherever it was vendored."""
    entries = sorted((each.kind, each.name, each.version, each.digest) for each in lock.entries)
    return hashlib.sha256(msgspec.json.encode(entries)).hexdigest()
