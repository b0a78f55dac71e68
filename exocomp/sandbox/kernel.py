"""The two doors to the kernel that the standard library lacks: raw system calls and prctl."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def syscall(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | None) -> int:
    """The result of a system call; integers go as long, buffers as their address. Raises OSError."""
    passed = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *passed))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def prctl(option: int, argument: int) -> None:
    """prctl(2) with one argument; raises OSError naming the option."""
    if _libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl option {option}")
