"""The Landlock layer (landlock(7)): which files, TCP ports, sockets and processes this thread may reach."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable

from exocomp.sandbox.kernel import syscall
from exocomp.sandbox.layers import LANDLOCK, LayerMissing

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION = 1
_PATH_BENEATH, _NET_PORT = 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MAKE_SOCK, _MAKE_FIFO, _MAKE_SYM = 1 << 9, 1 << 10, 1 << 12
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1

# How many of the file rights above each ABI knows, in the order of their bits.
_KNOWN_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV  # others are EINVAL on a file's rule
_CHANGE = _WRITE_FILE | _TRUNCATE | _REFER | _REMOVE_DIR | _REMOVE_FILE
_MAKE = _MAKE_DIR | _MAKE_REG | _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM

READ = "read"
FILE = "file"
EXECUTE = "execute"
WRITE = "write"
DEVICE = "device"
TERMINAL = "terminal"
RIGHTS = {
    READ: _READ_FILE | _READ_DIR,
    FILE: _READ_FILE,
    EXECUTE: _READ_FILE | _READ_DIR | _EXECUTE,
    WRITE: _READ_FILE | _READ_DIR | _EXECUTE | _CHANGE | _MAKE,
    DEVICE: _READ_FILE | _WRITE_FILE | _TRUNCATE,
    TERMINAL: _READ_FILE | _READ_DIR | _WRITE_FILE | _IOCTL_DEV,
}


def abi() -> int:
    """The version of the interface that the kernel offers; raises LayerMissing when it offers none."""
    try:
        return syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            reason = "the kernel has it, but it was not enabled at boot"
            cure = f'add "landlock" to the kernel\'s lsm= option (now: {_active_modules()}) and reboot'
        else:
            reason = f"the kernel does not offer it ({error.strerror})"
            cure = "boot Linux 6.12 or later with CONFIG_SECURITY_LANDLOCK=y, and let containers use it"
        raise LayerMissing(LANDLOCK, reason, cure) from None


def check(found: int, needed: int) -> None:
    """Raises LayerMissing when a kernel with ABI `found` cannot do what ABI `needed` can."""
    if found < needed:
        lacks = [what for since, what in _SINCE.items() if found < since <= needed]
        reason = f"the kernel's ABI {found} is older than {needed} and lets {', '.join(lacks)} through"
        raise LayerMissing(LANDLOCK, reason, "boot Linux 6.12 or later")


_SINCE = {2: "renames", 3: "truncation", 4: "every TCP port", 5: "device ioctls", 6: "signals and abstract sockets"}


def restrict(rules: Iterable[tuple[str, str]], connect: Iterable[int], *, needed: int) -> None:
    """Confine the calling thread, for good, to `rules`, (a key of RIGHTS, path), and to TCP connects to `connect`.

    Handles all that the kernel knows; paths that are absent are passed over. no_new_privs must be set.
    Raises LayerMissing when the kernel's ABI is below `needed`, OSError when it refuses a rule.
    """
    version = abi()
    check(version, needed)
    rights = (1 << _KNOWN_FILE_RIGHTS[min(version, max(_KNOWN_FILE_RIGHTS))]) - 1
    network = _BIND_TCP | _CONNECT_TCP if version >= 4 else 0
    scoped = _ABSTRACT_SOCKETS | _SIGNALS if version >= 6 else 0
    # struct landlock_ruleset_attr grew: an older kernel refuses bytes it does not know.
    attributes = struct.pack("=QQQ", rights, network, scoped)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = syscall(_CREATE_RULESET, ctypes.create_string_buffer(attributes, len(attributes)), len(attributes), 0)
    try:
        for kind, path in rules:
            _allow_path(ruleset, path, RIGHTS[kind] & rights, only_file=kind == FILE)
        for port in connect if network else ():
            rule = ctypes.create_string_buffer(struct.pack("=QQ", _CONNECT_TCP, port))  # in the host's byte order
            syscall(_ADD_RULE, ruleset, _NET_PORT, rule, 0)
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow_path(ruleset: int, path: str, rights: int, *, only_file: bool) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_FILES
        elif only_file:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.create_string_buffer(struct.pack("=Qi", rights, fd)), 0)
    finally:
        os.close(fd)


def _active_modules() -> str:
    with contextlib.suppress(OSError), open("/sys/kernel/security/lsm", encoding="ascii") as file:
        return file.read().strip()
    return "unknown"
