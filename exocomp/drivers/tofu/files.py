"""Small private files: read whole or not at all, written atomically with mode 0600."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

LARGEST_RECORD = 16 << 20


def make_private(folder: Path) -> None:
    """Make the directory and what is missing above it, all 0700: mkdir's own `parents` would follow the umask."""
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode=0o700, exist_ok=True)


def read_record(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty when there is none, or when it is not one."""
    try:
        content = json.loads(read_bytes(path, LARGEST_RECORD))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def read_bytes(path: Path, most: int, *, follow: bool = False) -> bytes:
    """What is in a regular file where a job can write: no link or FIFO of its making leads or holds us, no hole
    in a file fills the memory. Raises OSError for anything else, also for more than `most` bytes."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    # By an opener, so that what open() refuses, a directory, leaves no descriptor open.
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB", str(path))
        return stream.read(most)


def write_record(path: Path, content: dict[str, Any]) -> None:
    write_private(path, json.dumps(content).encode())


def write_private(path: Path, content: bytes) -> None:
    """Replace `path` as one step that survives a power cut."""
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)  # mkstemp makes it 0600
    try:
        with open(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
