"""Named crash points: tests kill the process exactly there; otherwise a lookup that finds nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

_AT = os.environ.get("EXOCOMP_CRASH_AT")
_TRACE = os.environ.get("EXOCOMP_CRASH_TRACE")


def point(name: str) -> None:
    """Die by SIGKILL where EXOCOMP_CRASH_AT says so; list the points passed in the file EXOCOMP_CRASH_TRACE."""
    if _TRACE is not None:
        with Path(_TRACE).open("a") as trace:
            trace.write(f"{name}\n")
    if _AT is not None and name == _AT:
        os.kill(os.getpid(), signal.SIGKILL)
