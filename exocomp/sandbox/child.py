"""The birth of one command: everything between the shim's fork and the program's first instruction."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

NOT_EXECUTABLE = 126
NOT_FOUND = 127

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Orphaned descendants become children of this process, however they detached (prctl(2))."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reset_signals() -> None:
    """Default disposition for every signal and an empty mask: ignored and blocked signals survive an exec."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def launch_argv(command: Mapping[str, Any]) -> list[str]:
    """The argv that is executed for a command: the layers around a job are put here, outermost first."""
    return list(command["argv"])


def spawn(argv: Sequence[str], env: Mapping[str, str], cwd: str, stdout: int, stderr: int) -> int:
    """The pid of a child that runs argv as leader of its own session and dies with this process.

    When argv cannot be executed the child says so on stderr and exits with 127 (not found) or 126, as sh(1) does.
    """
    parent = os.getpid()
    # A signal that arrives between fork and exec stays pending until the child's dispositions are its own.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if pid == 0:
        _become(parent, argv, env, cwd, stdout, stderr)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def _become(parent: int, argv: Sequence[str], env: Mapping[str, str], cwd: str, stdout: int, stderr: int) -> NoReturn:
    code = NOT_EXECUTABLE
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel was told to watch it
            os.kill(os.getpid(), signal.SIGKILL)
        os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        reset_signals()
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


def _prctl(option: int, argument: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl option {option}")
