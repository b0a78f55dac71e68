"""Network namespaces of one lab: names, entering them, and removing all that a lab left."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

CLONE_NEWNET = 0x40000000
NETNS = Path("/run/netns")
LABS = Path("/run/exocomp-lab")  # one directory a lab, named by its prefix; `owner` in it says whose it is

T = TypeVar("T")
_libc = ctypes.CDLL(None, use_errno=True)


def ip(*words: str) -> None:
    """Run ip(8); raises RuntimeError with its message."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def enter(name: str) -> list[str]:
    """The argv prefix that runs a command in the network namespace `name`; the command keeps the pid."""
    return ["nsenter", f"--net={NETNS / name}"]


def inside(name: str, what: Callable[[], T]) -> T:
    """Call `what` in the network namespace `name`; sockets that it makes stay there."""
    box: list[T | BaseException] = []

    def visit() -> None:
        # setns(2) moves the calling thread only, so the visit gets a thread of its own and ends with it.
        try:
            fd = os.open(NETNS / name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if _libc.setns(fd, CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), f"setns {name}")
            finally:
                os.close(fd)
            box.append(what())
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=visit)
    thread.start()
    thread.join()
    found = box[0]
    if isinstance(found, BaseException):
        raise found
    return found


def claim(prefix: str) -> Path:
    """The state directory of a new lab, marked as this process's."""
    home = LABS / prefix
    home.mkdir(parents=True)
    (home / "owner").write_text(f"{os.getpid()} {_started(os.getpid())}")
    return home


def sweep(prefix: str) -> None:
    """Kill what runs in the lab's namespaces and remove them; safe to call twice."""
    names = [path.name for path in NETNS.glob(f"{prefix}-*")]
    deadline = time.monotonic() + 10
    while (living := [pid for name in names for pid in _pids(name)]) and time.monotonic() < deadline:
        for pid in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
    home = LABS / prefix
    if home.is_dir():
        for path in sorted(home.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        home.rmdir()


def sweep_abandoned() -> None:
    """Remove the labs whose owner died without doing so."""
    for home in LABS.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            pid, started = (home / "owner").read_text().split()
            if _started(int(pid)) != started:
                sweep(home.name)


def _pids(name: str) -> list[int]:
    done = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
    return [int(pid) for pid in done.stdout.split()]


def _started(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return "gone"
    return stat.rpartition(")")[2].split()[19]
