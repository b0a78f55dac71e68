"""Takes down what is left of an attempt: the shim's orphans by parentage, a lost attempt's processes by marks."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable

from exocomp.errors import ExocompError
from exocomp.sandbox import procs, records

_NOT_TO_BE_READ = (FileNotFoundError, ProcessLookupError, PermissionError)


def kill_children(*, spare: int = 0) -> list[int]:
    """SIGKILL and reap every child of this process but `spare`; for a subreaper that is every descendant.

    Returns the pids of those which belong to another user and could not be killed.
    """
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return []
        # A child cannot lose its pid to somebody else before it is reaped here, so a plain kill is safe.
        children = [process.pid for process in procs.running().values() if process.parent == os.getpid()]
        children = [pid for pid in children if pid != spare]
        if any([_kill_child(pid) for pid in children]):
            os.waitpid(-1, 0)
        elif children or spare:
            return children


def _kill_child(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except PermissionError:
        return False
    return True


def sweep(directory: str | os.PathLike[str], *, within_s: float = 10.0) -> int:
    """SIGKILL every process of the attempt until none is left; returns how many there were.

    A process is of the attempt when its environment carries the mark, when it owns a socket bound in the
    directory (ssh's control masters overwrite their environment), or when it descends from such a one.
    One that even its own user cannot inspect (ssh-agent, unless root sweeps) is found by descent only.
    Raises ExocompError naming the processes that did not die within `within_s` seconds.
    """
    deadline = time.monotonic() + within_s
    seen: set[int] = set()
    while living := _members(records.canonical(directory), os.path.abspath(directory)):
        seen.update(process.pid for process in living)
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in living)
            raise ExocompError(
                f"processes of the lost attempt {directory} cannot be killed: {pids}",
                hint="end them by hand (as their owner or root), then retry",
            )
        _kill(living, patience_s=0.2)
    return len(seen)


def _members(*spellings: str) -> list[procs.Process]:
    mark = os.fsencode(f"{records.MARK}={spellings[0]}")
    sockets = _sockets_below(*spellings)
    everyone = procs.running()
    del everyone[os.getpid()]
    members = {pid for pid in everyone if _has_mark(pid, mark) or (sockets and not sockets.isdisjoint(_links(pid)))}
    heirs = members
    while heirs:
        heirs = {pid for pid, process in everyone.items() if process.parent in heirs} - members
        members = members | heirs
    return [everyone[pid] for pid in members]


def _has_mark(pid: int, mark: bytes) -> bool:
    with contextlib.suppress(*_NOT_TO_BE_READ), open(f"/proc/{pid}/environ", "rb") as file:
        return mark in file.read().split(b"\0")
    return False


def _sockets_below(*directories: str) -> set[str]:
    """Links, as /proc/<pid>/fd shows them, of the Unix sockets bound below one of the directories."""
    prefixes = tuple(os.fsencode(directory) + b"/" for directory in directories)
    with open("/proc/net/unix", "rb") as file:
        rows = (line.rstrip(b"\n").split(None, 7) for line in file)
        return {f"socket:[{row[6].decode()}]" for row in rows if len(row) == 8 and row[7].startswith(prefixes)}


def _links(pid: int) -> set[str]:
    links = set()
    with contextlib.suppress(*_NOT_TO_BE_READ):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                links.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return links


def _kill(living: Iterable[procs.Process], *, patience_s: float) -> None:
    """SIGKILL through pidfds, then wait up to `patience_s` for the dying."""
    poll = select.poll()
    with contextlib.ExitStack() as stack:
        dying = set()
        for process in living:
            if (fd := procs.open_same(process.pid, process.started)) is None:
                continue
            stack.callback(os.close, fd)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            poll.register(fd, select.POLLIN)
            dying.add(fd)
        until = time.monotonic() + patience_s
        while dying and (left_s := until - time.monotonic()) > 0:
            for fd, _ in poll.poll(left_s * 1000):
                poll.unregister(fd)
                dying.discard(fd)
