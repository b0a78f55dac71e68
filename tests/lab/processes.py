"""Processes by what their environment holds, as /proc shows them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path


def kill(lines: Iterable[str]) -> None:
    """SIGKILL for each line of `with_environment`; one that went with another is gone already."""
    for line in lines:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line.split()[0]), signal.SIGKILL)


def with_environment(name: str, value_prefix: str) -> list[str]:
    """`PID command` of each living process whose environment sets `name` to something that begins so."""
    mark = f"{name}={value_prefix}".encode()
    found = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdecimal():
            continue
        try:
            environment = (directory / "environ").read_bytes().split(b"\0")
            if any(entry.startswith(mark) for entry in environment):
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{directory.name} {command}")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found
