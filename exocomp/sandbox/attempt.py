"""The run of one attempt inside the shim: its commands in order, their output, the timeout and the way down."""

from __future__ import annotations

import math
import os
import select
import signal
import time
from typing import Any

from exocomp.sandbox import child, enclosure, records
from exocomp.sandbox.companion import Companion, NotReady
from exocomp.sandbox.enclosure import Enclosed
from exocomp.sandbox.layers import NOT_APPLIED, LayerMissing
from exocomp.sandbox.sweep import kill_children
from exocomp.sandbox.view import BadJail

OUTPUT_LOST = 74  # EX_IOERR of sysexits.h: the command may have succeeded, but its output could not be kept
TERM_GRACE_S = 5.0
_CHUNK = 65536


class Sink:
    """A file that output goes to. When the disk refuses it, output is dropped and `broken` is set: no job blocks."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.broken = False

    def write(self, chunk: bytes) -> None:
        try:
            records.write_all(self.fd, chunk)
        except OSError:
            self.broken = True

    def close(self) -> None:
        """Raises nothing for a full disk; `broken` is the verdict on the whole file."""
        try:
            os.fsync(self.fd)
        except OSError:
            self.broken = True
        os.close(self.fd)


class Stop:
    """The way down: SIGINT (terraform saves its state on it), after the grace SIGTERM, then SIGKILL."""

    def __init__(self, cause: str, grace_s: float) -> None:
        self.cause = cause
        self.due = time.monotonic()
        self.sent: signal.Signals | None = None
        self._signals = [
            (signal.SIGINT, grace_s),
            (signal.SIGTERM, min(grace_s, TERM_GRACE_S)),
            (signal.SIGKILL, math.inf),
        ]

    def signal_due(self) -> signal.Signals | None:
        if time.monotonic() < self.due:
            return None
        self.sent, patience_s = self._signals.pop(0)
        self.due = time.monotonic() + patience_s
        return self.sent


class Attempt:
    """Runs a spec (AttemptSpec as JSON has it) in `directory`; catches SIGTERM as the wish to cancel."""

    def __init__(self, directory: str, spec: dict[str, Any], log: Sink) -> None:
        self._directory = directory
        self._spec = spec
        self._log = log
        self._env = {**spec["env"], records.MARK: directory}
        self._stop: Stop | None = None
        self._cancelled = False
        self._companion: Companion | None = None
        timeout_s = spec.get("timeout_s")
        self._deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        self._bell, bell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # an ignored signal would not ring the bell
        signal.signal(signal.SIGTERM, self._cancel)

    def run(self) -> dict[str, object]:
        """What model.Exit holds. A stop between two commands is an exit by SIGINT of the earlier one."""
        code, name = 0, ""
        try:
            self._accompany()
            for command in self._spec["commands"]:
                if self._ending() is not None:
                    code = -signal.SIGINT
                    break
                name = command["name"]
                code = self._run(command)
                if code not in command["ok"]:
                    break
        except NotReady as why:
            code, name = NOT_APPLIED, self._spec["commands"][0]["name"]
            self._say(enclosure.refusal(why))
        finally:
            if self._companion:
                self._companion.end()
            kill_children()
        cause = self._stop.cause if self._stop else None
        return {
            "code": code,
            "command": name,
            "cancelled": cause == "cancelled",
            "timed_out": cause == "timed_out",
            "ended_at": time.time(),
        }

    def _accompany(self) -> None:
        """Start the companion, if the spec has one; raises NotReady."""
        if (spec := self._spec.get("companion")) is None:
            return
        env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", records.MARK: self._directory}
        self._companion = Companion(spec, env, self._directory, self._log.fd)
        self._companion.wait_until_ready(lambda: self._ending() is not None)

    def _cancel(self, *_: object) -> None:
        self._cancelled = True

    def _ending(self) -> Stop | None:
        """The way down, once a cancel or the timeout asked for it; the first cause stays."""
        if self._stop is None and self._cancelled:
            self._stop = Stop("cancelled", self._spec["grace_s"])
        if self._stop is None and time.monotonic() >= self._deadline:
            self._stop = Stop("timed_out", self._spec["grace_s"])
        return self._stop

    def _run(self, command: dict[str, Any]) -> int:
        target = command["stdout"]
        try:
            out = self._log if target == "log" else Sink(records.create(os.path.join(self._directory, target)))
        except OSError as error:
            self._log.write(f"exocomp: cannot write {target}: {error.strerror}\n".encode())
            return OUTPUT_LOST
        try:
            enclosed = enclosure.enclose(
                command["argv"], self._env, self._spec["cwd"], self._spec.get("jail"), self._directory
            )
        except (LayerMissing, BadJail) as why:
            self._say(enclosure.refusal(why))
            code = NOT_APPLIED
        else:
            code = self._watch(enclosed, out)
        if out is self._log:
            return code
        out.close()
        if out.broken:
            self._log.write(f"exocomp: {target} is incomplete: the disk did not take it\n".encode())
        return OUTPUT_LOST if out.broken and code in command["ok"] else code

    def _watch(self, enclosed: Enclosed, out: Sink) -> int:
        """Pump output and send what is due until the command ended and nothing of it lives; returns its code."""
        errors, stderr = _pipe()
        sinks = {errors: self._log}
        stdout = stderr
        if out is not self._log:
            output, stdout = _pipe()
            sinks[output] = out
        companion = {self._companion.fd} if self._companion else set()
        unborn = set() if enclosed.applied is None else {enclosed.applied}
        pid = child.spawn(
            enclosed.argv,
            enclosed.env,
            self._spec["cwd"],
            stdout,
            stderr,
            keep=enclosed.keep,
            hold_signals=enclosed.in_namespaces,
        )
        enclosed.opened()
        for fd in {stdout, stderr}:
            os.close(fd)
        open_pipes = set(sinks)
        while (status := self._reap(pid)) is None:
            self._press(pid)
            for fd in select.select([self._bell, *open_pipes, *companion, *unborn], [], [], self._patience_s())[0]:
                if fd in open_pipes and not _pump(fd, sinks[fd]):
                    open_pipes.discard(fd)
                elif fd in unborn:
                    unborn.clear()
                    # What was sent before the job's own process was there did not reach it: forks inherit no signals.
                    if self._stop and self._stop.sent:
                        self._send(pid, self._stop.sent)
                elif fd in companion:
                    companion.clear()
                    self._log.write(b"exocomp: the process beside this command died\n")
        for stranger in kill_children(spare=self._companion.pid if self._companion else 0):
            self._log.write(f"exocomp: process {stranger} belongs to another user and was left running\n".encode())
        for fd, sink in sinks.items():
            while chunk := _read(fd):
                sink.write(chunk)
            os.close(fd)
        code, why = enclosed.ended(status)
        self._say(why)
        return code

    def _say(self, line: str) -> None:
        self._log.write(line.encode("utf-8", "backslashreplace"))

    def _reap(self, pid: int) -> int | None:
        """The wait status of the command once it ended; buries orphans on the way."""
        # The bell is silenced before looking, so no death is missed.
        while _read(self._bell):
            continue
        while True:
            dead, status = os.waitpid(-1, os.WNOHANG)
            if dead in (0, pid):
                return status if dead else None

    def _press(self, pid: int) -> None:
        ending = self._ending()
        if ending and (number := ending.signal_due()):
            self._send(pid, number)

    def _send(self, pid: int, number: signal.Signals) -> None:
        try:
            os.killpg(pid, number)
        except ProcessLookupError:  # not yet leader of its own group
            os.kill(pid, number)
        except PermissionError:
            self._log.write(f"exocomp: process {pid} runs as another user and cannot be signalled\n".encode())

    def _patience_s(self) -> float | None:
        due = self._stop.due if self._stop else self._deadline
        return None if due == math.inf else max(0.0, due - time.monotonic())


def _pipe() -> tuple[int, int]:
    """A pipe whose reading end never blocks the shim and whose writing end is an ordinary one for the job."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(reading, False)
    return reading, writing


def _read(fd: int) -> bytes | None:
    """A chunk, b"" at the end, None when there is nothing now."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None


def _pump(fd: int, sink: Sink) -> bool:
    """Move one chunk; False when the pipe is at its end."""
    chunk = _read(fd)
    if chunk:
        sink.write(chunk)
    return chunk != b""
