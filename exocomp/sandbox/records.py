"""The files of an attempt directory: their names, and writing them so that they are whole or absent."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping

LOCK = "lock"  # flocked from before the shim's birth until its death; made once, so its presence means "started"
LOG = "log"
SHIM = "shim.json"  # {pid, starttime, boot_id}, there before the first command starts
EXIT = "exit.json"  # model.Exit, written last: the only proof that the attempt ended by itself

MARK = "EXOCOMP_ATTEMPT"  # environment of every process of an attempt: its canonical directory


def canonical(directory: str | os.PathLike[str]) -> str:
    """The one spelling of an attempt directory: absolute, symlinks resolved."""
    return os.path.realpath(directory)


def create(path: str) -> int:
    """A descriptor of a new empty 0600 file; never follows or fills what a job may have planted at `path`."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def write_all(fd: int, chunk: bytes) -> None:
    """Write the whole chunk to a file; raises OSError when the disk does not take it."""
    view = memoryview(chunk)
    while view:
        view = view[os.write(fd, view) :]


def sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def temporary(name: str) -> str:
    """The name that a record has until it is whole."""
    return f".{name}.tmp"


def write_record(directory: str, name: str, record: Mapping[str, object]) -> None:
    """Write a JSON file that survives a power cut whole, or is absent: tmp, fsync, rename, fsync of the directory."""
    unfinished = os.path.join(directory, temporary(name))
    fd = create(unfinished)
    try:
        write_all(fd, json.dumps(record).encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(unfinished, os.path.join(directory, name))
    sync_directory(directory)
