"""Attempts as tests run them: a shim without a daemon, a daemon that may be killed, and looking at processes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

import exocomp.sandbox
from exocomp.model import Exit
from exocomp.protocol.jobs import AttemptSpec, Command
from exocomp.sandbox import procs, records
from exocomp.sandbox.sweep import sweep

SHIM = Path(exocomp.sandbox.__file__).with_name("shim.py")
ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}

DAEMON = """
import sys, msgspec, trio
from pathlib import Path
from exocomp.actors.executor import LocalExecutor
from exocomp.protocol.jobs import AttemptSpec

async def main():
    executor, directory = LocalExecutor(), Path(sys.argv[1])
    await executor.start(directory, msgspec.json.decode(sys.argv[2], type=AttemptSpec))
    print("started", flush=True)
    print(await executor.wait(directory), flush=True)

trio.run(main)
"""


def sh(script: str, **more: Any) -> Command:
    return Command(**{"name": "job", "argv": ("sh", "-c", script), **more})


class Shim:
    """One attempt run without a daemon, by `python` and the copy of the shim that a person may read."""

    def __init__(self, directory: Path, *, python: str = sys.executable, program: Path = SHIM, **popen: Any) -> None:
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None
        self._argv = [python, "-I", "-S", str(program)]
        self._popen = popen

    def start(self, *commands: Command, preexec_fn: Callable[[], None] | None = None, **more: Any) -> None:
        spec = AttemptSpec(**{"commands": commands, "env": ENV, "cwd": str(self.directory), "grace_s": 0.3, **more})
        spec_fd = os.memfd_create("spec")
        os.write(spec_fd, msgspec.json.encode(spec))
        lock_fd = os.open(self.directory / records.LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        for fd in (lock_fd, spec_fd):
            os.set_inheritable(fd, True)
        self.process = subprocess.Popen(
            [*self._argv, str(self.directory), str(lock_fd), str(spec_fd)],
            **self._popen,
            start_new_session=True,
            preexec_fn=preexec_fn,
            restore_signals=False,
            close_fds=False,
        )
        os.close(lock_fd)
        os.close(spec_fd)

    def end(self) -> Exit:
        assert self.process is not None
        assert self.process.wait(30) == 0, self.log
        return msgspec.json.decode((self.directory / records.EXIT).read_bytes(), type=Exit)

    def run(self, *commands: Command, **more: Any) -> Exit:
        self.start(*commands, **more)
        return self.end()

    @property
    def log(self) -> bytes:
        return (self.directory / records.LOG).read_bytes()


@contextlib.contextmanager
def open_shim(tmp_path: Path) -> Iterator[Shim]:
    directory = tmp_path / "attempt"
    directory.mkdir(mode=0o700)
    shim = Shim(directory)
    try:
        yield shim
    finally:
        if shim.process is not None:
            shim.process.kill()
            shim.process.wait()
        sweep(directory)


def hostile() -> None:
    """What `nohup exocomp serve &` from a shell, and worse, hands down."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD))
    os.umask(0)
    os.dup2(2, 77)


def spec_of(directory: Path, *scripts: str, grace_s: float = 0.3) -> AttemptSpec:
    commands = tuple(Command(name=f"c{n}", argv=("sh", "-c", script)) for n, script in enumerate(scripts, 1))
    return AttemptSpec(commands=commands, env={"PATH": os.environ["PATH"]}, cwd=str(directory), grace_s=grace_s)


def daemon(directory: Path, spec: AttemptSpec) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", DAEMON, str(directory), msgspec.json.encode(spec).decode()]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def kill_daemon(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def bystander() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


def until(happened: Callable[[], Any]) -> Any:
    for _ in range(1000):
        if value := happened():
            return value
        time.sleep(0.01)
    raise AssertionError("it never happened")


def alive(pid: int) -> bool:
    process = procs.look_up(pid)
    return process is not None and process.state not in "ZX"


def pid_in(file: Path) -> int:
    return int(until(lambda: file.exists() and file.read_text().strip()))


def shim_of(directory: Path) -> int:
    return int(json.loads(until(lambda: (f := directory / records.SHIM).exists() and f.read_text()))["pid"])


def children() -> set[int]:
    """Of this process, zombies included."""
    found = (procs.look_up(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return {process.pid for process in found if process is not None and process.parent == os.getpid()}
