"""Vendored trees on disk: made aside, put in place whole, pointed at atomically, removed when nobody uses them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from exocomp import crash, ids, staging
from exocomp.errors import ExocompError
from exocomp.vendoring import lock
from exocomp.vendoring.lock import LOCK, Lock

CURRENT = "current"  # a link to the name of the tree that new attempts get
COLLECTIONS, ROLES = "collections", "roles"
_NAME = re.compile(r"vnd_[0-9a-z]+")
_WORK, _NEW, _POINTER = ".work-", ".new-", ".current-"


class Vendored(msgspec.Struct, frozen=True, kw_only=True):
    """A whole tree: `path` is its own place, never the pointer; `digest` that of its lock."""

    path: Path
    digest: str


class Staging:
    """A tree in the making, `tree`, and beside it `work`, where whoever makes it may write what does not stay.

    Whoever inherits `fd` keeps both from being swept while it lives.
    """

    def __init__(self, shelf: Path) -> None:
        shelf.mkdir(mode=0o700, exist_ok=True)
        self.name = ids.new("vnd")
        self.shelf = shelf
        self.work = shelf / f"{_WORK}{self.name}"
        self.tree = shelf / f"{_NEW}{self.name}"
        self.work.mkdir(mode=0o700)
        self.fd = os.open(self.work / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        for folder in (self.tree, self.tree / COLLECTIONS, self.tree / ROLES):
            folder.mkdir(mode=0o700)

    def publish(self, content: Lock) -> Vendored:
        """Make the tree the current one. A kill at any point leaves the old one current, or the new one, whole."""
        (self.tree / LOCK).write_bytes(lock.encode(content))
        _seal(self.tree)
        crash.point("vendor.sealed")
        target = self.shelf / self.name
        os.rename(self.tree, target)
        _sync(self.shelf)
        crash.point("vendor.placed")
        pointer = self.shelf / f"{_POINTER}{self.name}"
        pointer.symlink_to(self.name)
        crash.point("vendor.aimed")
        os.rename(pointer, self.shelf / CURRENT)
        _sync(self.shelf)
        crash.point("vendor.pointed")
        return Vendored(path=target, digest=lock.digest(content))

    def close(self) -> None:
        """Remove what is left of the making."""
        os.close(self.fd)
        _remove(self.tree)
        _remove(self.work)


def current(shelf: Path) -> Vendored | None:
    """The tree for a new attempt; None when nothing was vendored. Raises ExocompError when it is damaged."""
    name = current_name(shelf)
    if name is None:
        return None
    path = shelf / name
    return Vendored(path=path, digest=lock.digest(lock.read(path)))


def current_name(shelf: Path) -> str | None:
    try:
        name = os.readlink(shelf / CURRENT)
    except FileNotFoundError:
        return None
    except OSError:
        name = ""
    if not _NAME.fullmatch(name):
        raise ExocompError(
            f"{shelf / CURRENT} does not point to a vendored tree",
            hint="remove it, then `exocomp playbook vendor --requirements …` again",
        )
    return name


def sweep(shelf: Path, in_use: Iterable[str]) -> None:
    """Remove what a crash left, and trees that are neither current, nor the one before, nor in use.

    The one before stays for an attempt that has looked where the pointer leads and not yet noted it.
    """
    if not shelf.is_dir():
        return
    for work in shelf.glob(f"{_WORK}*"):
        if _is_held(work / "lock"):  # by what a daemon that died was running
            continue
        _remove(shelf / work.name.replace(_WORK, _NEW, 1))
        _remove(work)
    for pointer in shelf.glob(f"{_POINTER}*"):
        pointer.unlink()
    for tree in shelf.glob(f"{_NEW}*"):
        if not (shelf / tree.name.replace(_NEW, _WORK, 1)).exists():
            _remove(tree)
    keep: set[str | None] = set(in_use)
    with contextlib.suppress(ExocompError):  # a damaged one is replaced, and its predecessor is of no use
        if (name := current_name(shelf)) is not None:
            keep.add(name)
            keep.add(lock.read(shelf / name).replaced)
    for tree in shelf.iterdir():
        if _NAME.fullmatch(tree.name) and tree.name not in keep:
            _remove(tree)


def digest(root: Path) -> str:
    """The sha256 over every path below `root`: kind, content and executable bit, but no times or owners."""
    listing = []
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if path.is_symlink():
                listing.append([relative, "link", os.readlink(path), False])
            elif path.is_dir():
                listing.append([relative, "dir", "", False])
            else:
                with path.open("rb") as stream:
                    content = hashlib.file_digest(stream, "sha256").hexdigest()
                listing.append([relative, "file", content, bool(path.stat().st_mode & 0o111)])
    return hashlib.sha256(json.dumps(sorted(listing)).encode()).hexdigest()


def _seal(root: Path) -> None:
    """Read-only and its owner's alone, with what is executable so; on disk before it gets its name."""
    for folder, folders, files in os.walk(root, topdown=False):
        for name in files:
            path = Path(folder, name)
            if path.is_symlink():
                continue
            path.chmod(0o500 if path.stat().st_mode & 0o111 else 0o400)
            _sync(path)
        for place in [path for name in folders if not (path := Path(folder, name)).is_symlink()]:
            _sync(place)
            place.chmod(0o500)
    _sync(root)
    root.chmod(0o500)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove(tree: Path) -> None:
    if tree.exists():
        staging.discard(tree)


def _is_held(file: Path) -> bool:
    with contextlib.suppress(FileNotFoundError), file.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
