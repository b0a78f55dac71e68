"""The process beside the commands of an attempt (protocol.jobs.Companion as JSON has it), such as its ssh-agent."""

from __future__ import annotations

import os
import select
import shlex
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from exocomp.sandbox import child
from exocomp.sandbox.enclosure import memory

READY_WITHIN_S = 10.0
TERM_GRACE_S = 2.0
_LOOK_S = 0.01


class NotReady(Exception):
    """The companion did not come up; the text says how."""


class Companion:
    """Started on construction, outside every jail; `fd` becomes readable when it dies, whoever reaps it."""

    def __init__(self, spec: Mapping[str, Any], env: Mapping[str, str], cwd: str, log: int) -> None:
        self._ready = spec["ready"]
        secret = memory("secret", spec["secret"].encode("utf-8", "surrogateescape"))
        try:
            argv = [word.replace("{fd}", str(secret)) for word in spec["argv"]]
            self._name = shlex.join(spec["argv"])
            self.pid = child.spawn(argv, env, cwd, log, log, keep=(secret,))
            self.fd = os.pidfd_open(self.pid)
        finally:
            os.close(secret)

    def wait_until_ready(self, unwanted: Callable[[], bool]) -> None:
        """Returns early once it is `unwanted`; raises NotReady when it died or took too long."""
        deadline = time.monotonic() + READY_WITHIN_S
        while not os.path.exists(self._ready) and not unwanted():
            if self._has_ended(_LOOK_S):
                raise NotReady(f"the companion of its commands ended before it was ready: {self._name}")
            if time.monotonic() > deadline:
                raise NotReady(
                    f"the companion of its commands made no {self._ready} within {READY_WITHIN_S:.0f} s: {self._name}"
                )

    def end(self) -> None:
        """SIGTERM, then SIGKILL; at its end nothing of it is left but what it started itself."""
        for number, patience_s in ((signal.SIGTERM, TERM_GRACE_S), (signal.SIGKILL, TERM_GRACE_S)):
            if not self._has_ended(0):
                signal.pidfd_send_signal(self.fd, number)
                self._has_ended(patience_s)
        os.close(self.fd)

    def _has_ended(self, within_s: float) -> bool:
        return bool(select.select([self.fd], [], [], within_s)[0])
