"""Small private files: read whole or not at all, written atomically with mode 0600."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def make_private(folder: Path) -> None:
    """Make the directory and what is missing above it, all 0700: mkdir's own `parents` would follow the umask."""
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode=0o700, exist_ok=True)


def read_record(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty when there is none, or when it is not one."""
    try:
        # A job can write here: neither a link nor a FIFO of its making may lead or hold us.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:
            content = json.loads(stream.read())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


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
