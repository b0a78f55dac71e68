"""The seam between workers and the execution of attempts: start, wait (or adopt), cancel."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec
import trio

from exocomp.errors import ExocompError
from exocomp.model import Exit
from exocomp.protocol.jobs import AttemptSpec
from exocomp.sandbox import procs, records
from exocomp.sandbox.sweep import sweep

POLL_S = 0.02  # how often a shim that is just being born, or just dying, is looked at


class Executor(Protocol):
    """The attempt's directory is its idempotency key: one directory is run at most once."""

    async def start(self, directory: Path, spec: AttemptSpec) -> None:
        """Run the spec in an existing private directory; does nothing when that directory was ever started.

        Raises ExocompError when no process can be started; nothing ran then.
        """

    async def wait(self, directory: Path) -> Exit | None:
        """How the attempt ended; None when it is lost (or never started), and then nothing of it lives any more.

        Cancelling the wait leaves the attempt running. Raises ExocompError when a lost attempt left
        processes that cannot be killed.
        """

    async def cancel(self, directory: Path) -> None:
        """Ask a running attempt to stop; returns at once, `wait` tells the end. Does nothing when it does not run."""


def was_started(directory: Path) -> bool:
    """Whether the attempt of this directory was ever started, by whatever daemon."""
    return os.path.lexists(directory / records.LOCK)


class LocalExecutor:
    """An Executor whose attempts are shims on this machine; they outlive the daemon and are adopted by the next."""

    def __init__(self) -> None:
        self._unreaped: set[int] = set()

    async def start(self, directory: Path, spec: AttemptSpec) -> None:
        await trio.lowlevel.checkpoint()
        self._reap()
        try:
            pid = _start(records.canonical(directory), spec)
        except OSError as error:
            raise ExocompError(
                f"cannot start a process for the attempt {directory}: {error}",
                hint="check free disk space, file descriptors and processes, then retry",
            ) from error
        if pid is not None:
            self._unreaped.add(pid)

    async def wait(self, directory: Path) -> Exit | None:
        while True:
            with _shim(directory) as pidfd:
                if pidfd is not None:
                    await trio.lowlevel.wait_readable(pidfd)
            self._reap()
            held = _is_held(directory)
            # Read after the lock was looked at: a shim writes its exit before it lets go.
            if (ended := _exit(directory)) is not None:
                return ended
            if not held:
                await trio.to_thread.run_sync(sweep, directory)
                return None
            await trio.sleep(POLL_S)

    async def cancel(self, directory: Path) -> None:
        while _exit(directory) is None and _is_held(directory):
            with _shim(directory) as pidfd:
                if pidfd is not None:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
                    return
            await trio.sleep(POLL_S)

    def _reap(self) -> None:
        for pid in tuple(self._unreaped):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._unreaped.discard(pid)


class _Shim(msgspec.Struct, frozen=True):
    """What shim.json says."""

    pid: int
    starttime: int
    boot_id: str


def _start(directory: str, spec: AttemptSpec) -> int | None:
    """The pid of the new shim, or None when the directory was started before."""
    with contextlib.ExitStack() as stack:
        spec_fd = _above_stdio(os.memfd_create("spec"))
        stack.callback(os.close, spec_fd)
        # Escaped surrogates carry bytes of paths and values which are not UTF-8.
        records.write_all(spec_fd, json.dumps(msgspec.to_builtins(spec)).encode())
        lock_fd = _take_lock(directory)
        if lock_fd is None:
            return None
        stack.callback(os.close, lock_fd)
        shim = os.path.join(os.path.dirname(records.__file__), "shim.py")
        log = os.path.join(directory, records.LOG)
        write_log = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", shim, directory, str(lock_fd), str(spec_fd)],
            {records.MARK: directory, "LC_ALL": "C.UTF-8", **_loader_path()},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, write_log, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                # Onto itself: the one way to let a single descriptor through (posix_spawn(3)).
                (os.POSIX_SPAWN_DUP2, lock_fd, lock_fd),
                (os.POSIX_SPAWN_DUP2, spec_fd, spec_fd),
            ],
            setsid=True,
        )


def _take_lock(directory: str) -> int | None:
    """The held lock of a directory that was never started, else None; of two callers one gets it.

    It is flocked before it gets its name, so nobody ever sees it free while an attempt is being started.
    """
    unnamed = os.path.join(directory, f".{records.LOCK}.{os.getpid()}")
    fd = _above_stdio(records.create(unnamed))
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.link(unnamed, os.path.join(directory, records.LOCK))
    except FileExistsError:
        os.close(fd)
        return None
    except OSError:
        os.close(fd)
        raise
    finally:
        os.unlink(unnamed)
    return fd


def _above_stdio(fd: int) -> int:
    """The same file at a number that the child's stdin, stdout and stderr cannot overwrite."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def _loader_path() -> dict[str, str]:
    """What a Python that was built with a shared library may need to start at all (ld.so(8))."""
    name = "LD_LIBRARY_PATH"
    return {name: os.environ[name]} if name in os.environ else {}


def _is_held(directory: Path) -> bool:
    try:
        fd = os.open(directory / records.LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who look at once do not take each other for a shim.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


@contextlib.contextmanager
def _shim(directory: Path) -> Iterator[int | None]:
    """A pidfd of the living shim; None when there is none, whoever owns its pid now, on whatever boot."""
    try:
        record = msgspec.json.decode((directory / records.SHIM).read_bytes(), type=_Shim)
    except (FileNotFoundError, msgspec.DecodeError):
        record = None
    pidfd = None
    if record is not None and record.boot_id == procs.boot_id():
        pidfd = procs.open_same(record.pid, record.starttime)
    try:
        yield pidfd
    finally:
        if pidfd is not None:
            os.close(pidfd)


def _exit(directory: Path) -> Exit | None:
    """What exit.json proves; None when it is absent, or unreadable and so no proof."""
    try:
        return msgspec.json.decode((directory / records.EXIT).read_bytes(), type=Exit)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
