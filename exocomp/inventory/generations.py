"""Generations of a standing inventory as files: written once, published by a swap, checked before use, compared."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec

from exocomp.config import Layout
from exocomp.errors import Conflict, ExocompError, NotFound, WrongUsage
from exocomp.model import Generation, Host

_PREFIX = "tf:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts by name: new ones, gone ones, and (old, new) of those that are dialled otherwise than before."""

    joined: tuple[Host, ...] = ()
    left: tuple[Host, ...] = ()
    moved: tuple[tuple[Host, Host], ...] = ()


def inventory_name(workspace: str) -> str:
    """`tf:<workspace>`, the name of a workspace's standing inventory."""
    return f"{_PREFIX}{_checked(workspace, workspace)}"


def workspace_of(inventory: str) -> str:
    """The workspace that refreshes `inventory`; raises WrongUsage for a name that is not `tf:<workspace>`."""
    return _checked(inventory.removeprefix(_PREFIX) if inventory.startswith(_PREFIX) else "", inventory)


def own_name(name: str) -> str:
    """A name for an inventory of the operator's; raises WrongUsage for what may be none."""
    if name.startswith(_PREFIX):
        hint = f"such an inventory comes from an apply: exocomp workspace apply {name.removeprefix(_PREFIX)}"
        raise WrongUsage(f"the name {name!r} belongs to a workspace", hint=hint)
    if _NAME.fullmatch(name) is None:
        hint = "letters, digits, dots, - and _, at most 64, the first a letter or digit"
        raise WrongUsage(f"inventory name {name!r} is not usable", hint=hint)
    return name


def standing_path(layout: Layout, name: str) -> Path:
    """The file that always has the latest generation: inventories/edge.json for tf:edge, inventories/own/dc1.json."""
    if name.startswith(_PREFIX):
        return layout.inventories / f"{workspace_of(name)}.json"
    return layout.inventories / "own" / f"{own_name(name)}.json"


def generations_path(layout: Layout, name: str) -> Path:
    """The directory of the immutable files of `name`, for `write`."""
    if name.startswith(_PREFIX):
        return layout.inventories / "generations" / workspace_of(name)
    return layout.inventories / "own" / "generations" / own_name(name)


def write(content: dict[str, Any], into: Path) -> tuple[Path, str]:
    """Write `<digest>.json` (0600, on disk when this returns) and return it with its sha256 in hex.

    Equal text has equal digests. The order of groups, hosts and variables is part of the content, because ansible
    runs hosts in that order; Terraform prints maps sorted, so the same outputs give the same text.
    """
    return write_text((json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode(), into)


def write_text(text: bytes, into: Path) -> tuple[Path, str]:
    """As `write`, of a content that is text already."""
    digest = hashlib.sha256(text).hexdigest()
    file = into / f"{digest}.json"
    if _digest(file) != digest:
        _replace(file, text)
    return file, digest


def publish(file: Path, standing: Path) -> None:
    """Make `standing` a copy of `file` in one step; a reader sees the old content or the new one."""
    _replace(standing, file.read_bytes())


def check(generation: Generation, standing: Path) -> None:
    """Fail closed before a run: raises NotFound when the standing file or the generation's own is lost, Conflict when
    one is altered."""
    _unaltered(standing, generation)
    _unaltered(Path(generation.path), generation)


def private_copy(generation: Generation, into: Path) -> Path:
    """A 0600 copy named inventory.json in `into`, of exactly this generation; raises NotFound or Conflict."""
    text = _unaltered(Path(generation.path), generation)
    copy = into / "inventory.json"
    _replace(copy, text)
    return copy


def diff(old: Generation, new: Generation) -> Diff:
    """What changed from `old` to `new`; a host moved when address, port, user or connection differ."""
    before = {host.name: host for host in old.hosts}
    after = {host.name: host for host in new.hosts}
    both = ((before[name], host) for name, host in after.items() if name in before)
    return Diff(
        joined=tuple(host for name, host in after.items() if name not in before),
        left=tuple(host for name, host in before.items() if name not in after),
        moved=tuple((was, now) for was, now in both if _dialled(was) != _dialled(now)),
    )


def captured_message(outputs: int, standing: Path, hosts: int) -> str:
    """The sentence of the `outputs_captured` event."""
    return f"captured {outputs} output(s) to inventory {standing} naming {hosts} host(s)"


def _dialled(host: Host) -> tuple[str, int, str | None, str]:
    return host.address, host.port, host.user, host.connection


def _checked(workspace: str, shown: str) -> str:
    if _NAME.fullmatch(workspace) is None:
        hint = "tf:<workspace>: letters, digits, dots, - and _, at most 64, the first a letter or digit"
        raise WrongUsage(f"{shown!r} names no inventory of a workspace", hint=hint)
    return workspace


def _unaltered(file: Path, generation: Generation) -> bytes:
    again = _written_anew(generation.inventory)
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"the file of inventory {generation.inventory} is lost: {file}", hint=again) from None
    except OSError as error:
        what = f"the file of inventory {generation.inventory} cannot be read: {file}: {error.strerror}"
        raise ExocompError(what, hint=again) from None
    if hashlib.sha256(text).hexdigest() != generation.digest:
        what = f"the file of inventory {generation.inventory} is not generation {generation.number} any more: {file}"
        raise Conflict(what, hint=again)
    return text


def _written_anew(inventory: str) -> str:
    if inventory.startswith(_PREFIX):
        return f"write it anew: exocomp workspace apply {inventory.removeprefix(_PREFIX)}"
    return f"write it anew: exocomp inventory add {inventory} <file>"


def _digest(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def _replace(file: Path, text: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, file)
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
