"""Files that hold a key: one owner, nobody else; made whole or not at all, and never over another's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from exocomp.errors import ExocompError

LARGEST = 1 << 20


def read(path: Path, what: str, *, cure: str, shared: bool = False) -> bytes:
    """Its content. Raises ExocompError when it is no regular file, not ours, or open to others, unless `shared`;
    OSError when it can't be read."""
    # Non-blocking, so that a FIFO in its place can't hold the daemon.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise ExocompError(f"{what} {path} is not a regular file of its size")
        if status.st_uid != os.geteuid() and not shared:
            raise ExocompError(
                f"{what} {path} belongs to uid {status.st_uid}, not to {os.geteuid()}",
                hint="run the daemon as the owner of its data dir",
            )
        if stat.S_IMODE(status.st_mode) & 0o077 and not shared:
            raise ExocompError(
                f"{what} {path} has mode {stat.S_IMODE(status.st_mode):04o}: others can reach it",
                hint=f"if nobody can have read it: chmod 600 {path}; else {cure}",
            )
        return file.read(LARGEST)


def create(path: Path, content: bytes) -> bool:
    """Make it, 0600 and on disk; False when there was one already, which stays as it is."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, 0o600)
            file.write(content)
            file.flush()
            os.fsync(fd)
        try:
            os.link(draft, path)  # unlike rename, never replaces the one of whoever was first
        except FileExistsError:
            return False
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)
    return True


def sync(directory: Path) -> None:
    """What was made, renamed or removed in it survives a power cut."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
