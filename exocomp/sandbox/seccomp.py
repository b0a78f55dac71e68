"""The seccomp layer (seccomp(2)): a filter in classic BPF for what neither Landlock nor namespaces hold back."""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct

from exocomp.sandbox.kernel import syscall
from exocomp.sandbox.layers import SECCOMP, LayerMissing
from exocomp.sandbox.syscalls import BY_MACHINE

_SET_MODE_FILTER = 1
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data
_X32_BIT = 0x40000000

_SOCK_TYPE_MASK = 0xF
_MSG_FASTOPEN = 0x20000000
# TCP_ULP would turn the socket into one that Landlock does not know (SMC).
_TCP_FASTOPEN, _TCP_FASTOPEN_CONNECT, _TCP_ULP = 23, 30, 31
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_NEW_NAMESPACE = 0x7E020000  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}


class Program:
    """Assembles classic BPF whose jumps go forward, to labels."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, int, str, str]] = []
        self._labels: dict[str, int] = {}

    def load(self, offset: int) -> None:
        self._steps.append((_LOAD, offset, "", ""))

    def load_argument(self, index: int) -> None:
        """The low 32 bits: all that the kernel looks at of an int."""
        self.load(16 + 8 * index)

    def mask(self, bits: int) -> None:
        self._steps.append((_AND, bits, "", ""))

    def when(self, test: int, value: int, yes: str, no: str = "") -> None:
        """Jump by the loaded value; no label: go on."""
        self._steps.append((test, value, yes, no))

    def label(self, name: str) -> None:
        self._labels[name] = len(self._steps)

    def give(self, verdict: int) -> None:
        self._steps.append((_RETURN, verdict, "", ""))

    def bytes(self) -> bytes:
        """struct sock_filter for each step; raises struct.error when a jump goes back or over 255 steps."""
        code = b""
        for here, (operation, value, yes, no) in enumerate(self._steps, 1):
            jumps = [self._labels[label] - here if label else 0 for label in (yes, no)]
            code += struct.pack("=HBBI", operation, *jumps, value)
        return code


def program(machine: str) -> bytes:
    """The filter for a machine as uname(1) calls it; raises LayerMissing for one that nobody wrote a table for."""
    if machine not in BY_MACHINE:
        known = " and ".join(BY_MACHINE)
        raise LayerMissing(SECCOMP, f"exocomp has no filter for {machine}", f"run exocomp on {known}")
    table = BY_MACHINE[machine]
    code = Program()
    code.load(_ARCH)
    code.when(_EQUAL, table.arch, "arch")
    code.give(_KILL_PROCESS)  # another ABI has other numbers, such as 32-bit programs
    code.label("arch")
    code.load(_NUMBER)
    code.when(_AT_LEAST, _X32_BIT, "absent")
    for name, number in table.judged.items():
        code.when(_EQUAL, number, name)
    for number in table.denied.values():
        code.when(_EQUAL, number, "denied")
    code.give(_ALLOW)
    _judge_sockets(code)
    _judge_messages(code)
    _judge_options(code)
    code.label("clone")
    code.load_argument(0)
    code.when(_ANY_BIT, _NEW_NAMESPACE, "denied", "allowed")
    code.label("allowed")
    code.give(_ALLOW)
    code.label("denied")
    code.give(_ERRNO | errno.EPERM)
    code.label("clone3")  # its flags lie in memory, where no filter sees them; the C library falls back to clone
    code.label("absent")
    code.give(_ERRNO | errno.ENOSYS)
    code.label("refused")
    code.give(_ERRNO | errno.EACCES)
    code.label("family")
    code.give(_ERRNO | errno.EAFNOSUPPORT)
    code.label("protocol")
    code.give(_ERRNO | errno.EPROTONOSUPPORT)
    return code.bytes()


def _judge_sockets(code: Program) -> None:
    """TCP over IPv4 and IPv6, Unix sockets, and reading routes and addresses; nothing else."""
    code.label("socket")
    code.load_argument(0)
    code.when(_EQUAL, socket.AF_UNIX, "allowed")
    code.when(_EQUAL, socket.AF_NETLINK, "netlink")
    code.when(_EQUAL, socket.AF_INET, "inet")
    code.when(_EQUAL, socket.AF_INET6, "inet", "family")
    code.label("netlink")
    code.load_argument(2)
    code.when(_EQUAL, socket.NETLINK_ROUTE, "allowed", "protocol")
    code.label("inet")
    code.load_argument(1)
    code.mask(_SOCK_TYPE_MASK)
    code.when(_EQUAL, socket.SOCK_STREAM, "stream", "refused")
    code.label("stream")
    code.load_argument(2)
    code.when(_EQUAL, 0, "allowed")
    code.when(_EQUAL, socket.IPPROTO_TCP, "allowed", "protocol")  # MPTCP, SCTP and SMC are streams too
    code.label("socketpair")
    code.load_argument(0)
    code.when(_EQUAL, socket.AF_UNIX, "allowed", "family")


def _judge_messages(code: Program) -> None:
    """Data in the SYN connects without the check that connect(2) has."""
    for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        code.label(name)
        code.load_argument(flags)
        code.when(_ANY_BIT, _MSG_FASTOPEN, "refused", "allowed")


def _judge_options(code: Program) -> None:
    code.label("setsockopt")
    code.load_argument(1)
    code.when(_EQUAL, socket.IPPROTO_TCP, "tcp option", "allowed")
    code.label("tcp option")
    code.load_argument(2)
    for option in (_TCP_FASTOPEN, _TCP_FASTOPEN_CONNECT, _TCP_ULP):
        code.when(_EQUAL, option, "denied")
    code.give(_ALLOW)
    code.label("ioctl")
    code.load_argument(1)
    code.when(_EQUAL, _TIOCSTI, "denied")
    code.when(_EQUAL, _TIOCLINUX, "denied", "allowed")


def install() -> None:
    """Filter the calling thread and what it starts, for good; no_new_privs must be set. Raises LayerMissing."""
    machine = platform.machine()
    code = program(machine)
    buffer = ctypes.create_string_buffer(code, len(code))
    filters = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))  # struct sock_fprog
    number = BY_MACHINE[machine].seccomp
    try:
        syscall(number, _SET_MODE_FILTER, 0, ctypes.create_string_buffer(filters, len(filters)))
    except OSError as error:
        cure = "boot a kernel with CONFIG_SECCOMP_FILTER=y, and let containers use seccomp(2)"
        raise LayerMissing(SECCOMP, f"the kernel refuses the filter ({error.strerror})", cure) from None
