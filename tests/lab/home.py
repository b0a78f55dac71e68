"""One data dir, its daemon as a real process, and the command line against it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from exocomp.errors import NotFound
from exocomp.protocol.events import AnyEvent, Recorded, StepMoved, WorkflowEnded
from exocomp.protocol.queries import Events, ListEvents, ShowWorkflow, WorkflowView
from exocomp.store import answer
from tests.lab.processes import kill, with_environment

EXOCOMP = (sys.executable, "-m", "exocomp.cli.main")
E = TypeVar("E")


class Home:
    """`argv` is put before every command: where (in which namespace) it runs. Close it, whatever happened."""

    def __init__(self, argv: Sequence[str] = ()) -> None:
        self._argv = list(argv)
        # Short: ssh's control sockets lie below the data dir.
        self.base = Path(tempfile.mkdtemp(prefix="xo-", dir="/tmp"))
        self.data = self.base / "d"
        self.log = self.base / "daemon.log"
        self.trace = self.base / "trace"
        self._daemon: subprocess.Popen[bytes] | None = None
        for name in ("home", "work"):
            (self.base / name).mkdir()
        self.work = self.base / "work"

    def env(self, **more: str) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.base / "home"),
            "LC_ALL": "C.UTF-8",
            "EXOCOMP_CONFIG": os.devnull,
            "EXOCOMP_DATA_DIR": str(self.data),
            "PYTHONWARNINGS": "error::ResourceWarning",
            **more,
        }

    # The daemon

    def serve(self, *, crash_at: str = "", expect_death: bool = False) -> None:
        """Start the daemon and wait until it answers; with `expect_death`, only until it answers or has died."""
        assert self._daemon is None, "a daemon is already there"
        more = {"EXOCOMP_CRASH_TRACE": str(self.trace)}
        if crash_at:
            more["EXOCOMP_CRASH_AT"] = crash_at
        with self.log.open("ab") as log:
            self._daemon = subprocess.Popen(
                [*self._argv, *EXOCOMP, "serve"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.env(**more),
                cwd=self.base,
                start_new_session=True,
            )
        deadline = time.monotonic() + 30
        while not self._answers():
            if self._daemon.poll() is not None and expect_death:
                return
            if self._daemon.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the daemon did not start: {self.daemon_log()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.data / "run" / "exocomp.sock"))
            except OSError:
                return False
        return True

    def daemon_log(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill(self) -> None:
        """kill -9 the daemon, and only it."""
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait()
        self._daemon = None

    def wait_for_death(self, timeout_s: float = 60.0) -> int:
        """The daemon's exit status, once a crash point or itself ended it."""
        assert self._daemon is not None
        status = self._daemon.wait(timeout_s)
        self._daemon = None
        return status

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        assert self._daemon is not None
        self._daemon.terminate()
        return self.wait_for_death()

    # The command line

    def spawn(self, *words: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._argv, *EXOCOMP, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env(**more),
            cwd=self.work,
        )

    def run(self, *words: str, exit: int | None = 0, timeout_s: float = 180.0) -> subprocess.CompletedProcess[str]:
        """Run one command to its end; asserts its exit code unless `exit` is None, and no traceback."""
        process = self.spawn(*words)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{words} did not end: {out}\n{err}\n{self.daemon_log()}") from None
        said = f"exocomp {' '.join(words)} exited {process.returncode}\n{out}\n{err}\n--- daemon\n{self.daemon_log()}"
        assert "Traceback" not in err, said
        assert exit is None or process.returncode == exit, said
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json").stdout)

    # The ledger, read as any client may read it with or without a daemon

    def events(self) -> tuple[Recorded, ...]:
        try:
            found = answer.ask(self.data, ListEvents(limit=100_000))
        except NotFound:
            return ()
        assert isinstance(found, Events)
        return found.events

    def view(self, workflow: str = "latest") -> WorkflowView:
        found = answer.ask(self.data, ShowWorkflow(id=workflow))
        assert isinstance(found, WorkflowView)
        return found

    def states(self, workflow: str = "latest") -> dict[str, str]:
        return {each.step.name: each.step.state.value for each in self.view(workflow).steps}

    def of(self, kind: type[E]) -> list[E]:
        """Every event of a kind, oldest first."""
        return [each.event for each in self.events() if isinstance(each.event, kind)]

    def wait_for(self, wanted: Callable[[AnyEvent], bool], what: str, timeout_s: float = 60.0) -> Recorded:
        """The first event that is wanted; raises AssertionError with what happened instead."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for each in self.events():
                if wanted(each.event):
                    return each
            time.sleep(0.02)
        raise AssertionError(f"never: {what}\n{self.told()}")

    def wait_for_step(self, step: str, state: str, timeout_s: float = 60.0) -> Recorded:
        return self.wait_for(
            lambda event: isinstance(event, StepMoved) and event.step == step and event.new == state,
            f"{step} {state}",
            timeout_s,
        )

    def wait_for_end(self, timeout_s: float = 120.0) -> WorkflowView:
        """The latest workflow, once it has ended."""
        self.wait_for(lambda event: isinstance(event, WorkflowEnded), "the end of a workflow", timeout_s)
        return self.view()

    def told(self) -> str:
        """Events and the daemon's log, for the message of a failed assertion."""
        lines = [f"{each.seq} {each.event}" for each in self.events()]
        return "\n".join([*lines, "--- daemon", self.daemon_log()])

    # What is left

    def processes(self) -> list[str]:
        """Processes that belong to an attempt of this data dir."""
        return with_environment("EXOCOMP_ATTEMPT", str(self.data))

    def wait_until_quiet(self, timeout_s: float = 10.0) -> None:
        """Raises AssertionError naming the processes that are left over."""
        deadline = time.monotonic() + timeout_s
        while left := self.processes():
            assert time.monotonic() < deadline, f"left over: {left}"
            time.sleep(0.05)

    def close(self) -> None:
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGKILL)
            self._daemon.wait()
            self._daemon = None
        kill(self.processes())
        deadline = time.monotonic() + 5
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        shutil.rmtree(self.base, ignore_errors=True)
