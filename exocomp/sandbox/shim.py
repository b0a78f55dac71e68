"""The process that owns one attempt and outlives the daemon: `python -I -S shim.py <directory> <lock_fd> <spec_fd>`.

It inherits the attempt's lock and holds it until it dies, reads the spec from a memfd, names itself in shim.json
before the first command starts, and proves the end of the attempt with exit.json, written last.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

# -I and -S leave nothing but the standard library on the path.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from exocomp.sandbox import child, procs, records
from exocomp.sandbox.attempt import Attempt, Sink


def main(directory: str, lock_fd: int, spec_fd: int) -> None:
    _isolate(lock_fd, spec_fd)
    with open(spec_fd, "rb") as file:
        file.seek(0)
        spec = json.load(file)
    log = Sink(_log(directory))
    # SIGTERM must already mean "cancel" when shim.json tells others whom to send it to.
    attempt = Attempt(directory, spec, log)
    _introduce(directory)
    ended = attempt.run()
    log.close()
    records.write_record(directory, records.EXIT, ended)


def _isolate(lock_fd: int, spec_fd: int) -> None:
    """Drop what the daemon happened to leave: descriptors, signal dispositions, umask, orphans' next of kin."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in (lock_fd, spec_fd):
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(fd)
    os.set_inheritable(lock_fd, False)
    os.umask(0o077)
    child.reset_signals()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    child.become_subreaper()


def _log(directory: str) -> int:
    """The attempt's log; the shim's own traceback goes there too."""
    fd = os.open(
        os.path.join(directory, records.LOG),
        os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o600,
    )
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    return fd


def _introduce(directory: str) -> None:
    """Write shim.json, and make the directory itself survive a power cut: jobs/<job>/<attempt> may all be new."""
    me = procs.look_up(os.getpid())
    assert me is not None
    parent = os.path.dirname(directory)
    for new in (os.path.dirname(parent), parent):
        records.sync_directory(new)
    record = {"pid": me.pid, "starttime": me.started, "boot_id": procs.boot_id()}
    records.write_record(directory, records.SHIM, record)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
