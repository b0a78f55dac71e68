"""Processes as /proc shows them (proc(5)): who is whose parent, and who is still the one that was recorded."""

from __future__ import annotations

import os
from typing import NamedTuple


class Process(NamedTuple):
    """`started` is in clock ticks since boot and tells two owners of one pid apart."""

    pid: int
    state: str
    parent: int
    started: int


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def look_up(pid: int) -> Process | None:
    """The process that has this pid now, zombies included; None when there is none, or proc's hidepid hides it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = line[line.rindex(b")") + 1 :].split()  # the name before it may hold blanks and parentheses
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[19]))


def running() -> dict[int, Process]:
    """Every process that is not a zombie, by pid."""
    found = (look_up(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return {process.pid: process for process in found if process is not None and process.state not in "ZX"}


def open_same(pid: int, started: int) -> int | None:
    """A pidfd of the process that had this pid and start time; None when it is gone, whoever has the pid now."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    # Looked up after the pidfd was opened: if this is the one, then the pidfd is of no other.
    now = look_up(pid)
    if now is None or now.started != started:
        os.close(fd)
        return None
    return fd
