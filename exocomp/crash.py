"""Named crash points: tests kill the process exactly there; otherwise a lookup that finds nothing."""

from __future__ import annotations

import os
import signal

_AT = os.environ.get("EXOCOMP_CRASH_AT")


def point(name: str) -> None:
    """Die by SIGKILL when EXOCOMP_CRASH_AT names this point (tests only)."""
    if _AT is not None and name == _AT:
        os.kill(os.getpid(), signal.SIGKILL)
