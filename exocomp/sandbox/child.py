"""The birth of one command: everything between the shim's fork and the program's first instruction."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import NoReturn

from exocomp.sandbox.kernel import prctl

NOT_EXECUTABLE = 126
NOT_FOUND = 127

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Orphaned descendants become children of this process, however they detached (prctl(2))."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reset_signals(*, unblock: bool = True) -> None:
    """Default disposition for every signal and an empty mask: ignored and blocked signals survive an exec."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    if unblock:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    stdout: int,
    stderr: int,
    *,
    keep: Sequence[int] = (),
    hold_signals: bool = False,
) -> int:
    """The pid of a child that runs argv as leader of its own session, dies with this process and inherits `keep`.

    With `hold_signals` all signals stay blocked in it, so that of a session only who unblocks them gets any.
    When argv cannot be executed the child says so on stderr and exits with 127 (not found) or 126, as sh(1) does.
    """
    parent = os.getpid()
    # A signal that arrives between fork and exec stays pending until the child's dispositions are its own.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if pid == 0:
        try:
            _detach(parent, stdout, stderr)
            for fd in keep:
                os.set_inheritable(fd, True)
            become(argv, env, cwd, hold_signals=hold_signals)
        finally:
            os._exit(NOT_EXECUTABLE)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def become(argv: Sequence[str], env: Mapping[str, str], cwd: str, *, hold_signals: bool = False) -> NoReturn:
    """Run argv in this process, by the PATH of `env`; see `spawn` for what happens when that cannot be."""
    code = NOT_EXECUTABLE
    try:
        reset_signals(unblock=not hold_signals)
        os.chdir(cwd)
        try:
            os.execvpe(argv[0], list(argv), dict(env))
        except (FileNotFoundError, NotADirectoryError):
            code = NOT_FOUND
            raise
    except BaseException as error:
        os.write(2, f"exocomp: cannot run {argv[0]!r} in {cwd!r}: {error}\n".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(code)


def _detach(parent: int, stdout: int, stderr: int) -> None:
    os.setsid()
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was told to watch it
        os.kill(os.getpid(), signal.SIGKILL)
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
