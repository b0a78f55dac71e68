"""What a hostile job tries; run as `python attacks.py <world as JSON>`, prints {attack: errno name or "through"}.

Each function is one attack and stands on the standard library alone: it runs inside the jail.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

THROUGH = "through"
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
FASTOPEN = 0x20000000
CONNECT_BY_DATA, ULP = 30, 31
CLONE_NEWUSER = 0x10000000
LONG = ctypes.c_long
VECTOR = ctypes.create_string_buffer(struct.pack("@QQ", 0, 8))  # an iovec at address 0


def syscall(number: int, *arguments: Any) -> int:
    result = int(LIBC.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def number(x86_64: int, aarch64: int) -> int:
    return x86_64 if os.uname().machine == "x86_64" else aarch64


def tcp(family: int, port: int, protocol: int = 0) -> None:
    with socket.socket(family, socket.SOCK_STREAM, protocol) as s:
        s.settimeout(5)
        s.connect(("::1" if family == socket.AF_INET6 else "127.0.0.1", port))
        s.sendall(b"tcp")


def fast_open(family: int, port: int, way: str, *, blocking: bool = True) -> None:
    """Data in the SYN: a connection without connect(2)."""
    address = ("::1" if family == socket.AF_INET6 else "127.0.0.1", port)
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.setblocking(blocking)
        try:
            if way == "sendto":
                s.sendto(b"fast", FASTOPEN, address)
            elif way == "sendmsg":
                s.sendmsg([b"fast"], [], FASTOPEN, address)
            elif way == "sendmmsg":
                sendmmsg(s, port)
            else:
                s.setsockopt(socket.IPPROTO_TCP, CONNECT_BY_DATA, 1)
                s.connect(address)
                s.send(b"fast")
        except BlockingIOError:
            s.setblocking(True)
            s.getpeername()


def sendmmsg(s: socket.socket, port: int) -> None:
    name = ctypes.create_string_buffer(
        struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton("127.0.0.1") + bytes(8)
    )
    text = ctypes.create_string_buffer(b"fast")
    vector = ctypes.create_string_buffer(struct.pack("@PN", ctypes.addressof(text), 4))
    header = struct.pack("@PI4xPNPNi4xI4x", ctypes.addressof(name), 16, ctypes.addressof(vector), 1, 0, 0, 0, 0)
    syscall(number(307, 269), s.fileno(), ctypes.create_string_buffer(header), 1, FASTOPEN)


def udp(family: int, port: int) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.sendto(b"udp", ("::1" if family == socket.AF_INET6 else "127.0.0.1", port))


def make(family: int, kind: int, protocol: int = 0) -> None:
    socket.socket(family, kind, protocol).close()


def bind(family: int, *, own_port: bool) -> None:
    with socket.socket(family) as s:
        if own_port:
            s.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        s.listen()


def unix(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(address)


def read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def write(path: str, flags: int = os.O_CREAT) -> None:
    os.close(os.open(path, os.O_WRONLY | flags, 0o600))


def inotify(path: str) -> None:
    fd = syscall(number(294, 26), 0)
    syscall(number(254, 27), ctypes.c_int(fd), ctypes.c_char_p(path.encode()), ctypes.c_uint32(0xFFF))


def clone3(flags: int) -> None:
    arguments = ctypes.create_string_buffer(struct.pack("=Q", flags) + bytes(24) + struct.pack("=Q", 17) + bytes(24))
    if syscall(435, arguments, ctypes.c_size_t(64)) == 0:
        os._exit(0)


def clone(flags: int) -> None:
    if syscall(number(56, 220), ctypes.c_long(flags | signal.SIGCHLD), None, None, None, None) == 0:
        os._exit(0)


def attacks(w: dict[str, Any]) -> dict[str, Callable[[], object]]:
    v4, v6, stream, dgram = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM
    out, own, port, victim = w["outside"], w["own"], w["port"], w["victim"]
    db = f"{out}/db"
    return {
        "granted file": lambda: read(w["identity"]),
        "granted device": lambda: write("/dev/null", 0),
        "granted memory": lambda: (write(f"/dev/shm/{victim}"), os.unlink(f"/dev/shm/{victim}")),
        "granted directory": lambda: write(f"{own}/x"),
        "granted port": lambda: tcp(v4, w["granted"]),
        "granted port on v6": lambda: tcp(v6, w["granted6"]),
        # 1: reading
        "read key": lambda: read(f"{out}/key"),
        "read shadow": lambda: read("/etc/shadow"),
        "read db": lambda: read(db),
        "list data": lambda: os.listdir(out),
        "list other job": lambda: os.listdir(f"{out}/other"),
        "list root": lambda: os.listdir("/"),
        "walk through": lambda: read(f"{own}/../../outside/db"),
        "read by a planted link": lambda: (os.symlink(db, f"{own}/link"), read(f"{own}/link")),
        # 2: writing
        "create": lambda: write(f"{out}/new"),
        "create above": lambda: write(f"{own}/../new"),
        "create in the root": lambda: write("/exocomp-new"),
        "create in usr": lambda: write("/usr/exocomp-new"),
        "mkdir": lambda: os.mkdir(f"{out}/newdir"),
        "truncate": lambda: os.truncate(db, 0),
        "rename in": lambda: os.rename(f"{out}/moved", f"{own}/moved"),
        "rename out": lambda: (write(f"{own}/y"), os.rename(f"{own}/y", f"{out}/y")),
        "link in": lambda: os.link(db, f"{own}/db"),
        # 3: metadata
        "stat": lambda: os.stat(db),
        "chmod": lambda: os.chmod(db, 0o640),
        "utime": lambda: os.utime(db),
        "inotify": lambda: inotify(db),
        # 4: one granted file
        "read sibling": lambda: read(w["identity"] + ".sibling"),
        "list beside identity": lambda: os.listdir(os.path.dirname(w["identity"])),
        "write identity": lambda: write(w["identity"], 0),
        "chmod identity": lambda: os.chmod(w["identity"], 0o644),
        "unlink identity": lambda: os.unlink(w["identity"]),
        # 5: TCP
        "tcp": lambda: tcp(v4, port),
        "tcp on v6": lambda: tcp(v6, w["port6"]),
        # 6: TCP without connect
        "fast open sendto": lambda: fast_open(v4, port, "sendto"),
        "fast open sendto on v6": lambda: fast_open(v6, w["port6"], "sendto"),
        "fast open sendto, not blocking": lambda: fast_open(v4, port, "sendto", blocking=False),
        "fast open sendmsg": lambda: fast_open(v4, port, "sendmsg"),
        "fast open sendmsg on v6": lambda: fast_open(v6, w["port6"], "sendmsg"),
        "fast open sendmmsg": lambda: fast_open(v4, port, "sendmmsg"),
        "fast open connect": lambda: fast_open(v4, port, "option"),
        "upper protocol": lambda: socket.socket(v4).setsockopt(socket.IPPROTO_TCP, ULP, b"smc"),
        # 7: everything that is not TCP
        "mptcp": lambda: tcp(v4, port, 262),
        "sctp": lambda: make(v4, stream, 132),
        "smc": lambda: make(43, stream),
        "udp": lambda: udp(v4, w["udp"]),
        "udp on v6": lambda: udp(v6, w["udp"]),
        "raw": lambda: make(v4, socket.SOCK_RAW, 1),
        "ping": lambda: make(v4, dgram, 1),
        "packet": lambda: make(17, socket.SOCK_RAW),
        "vsock": lambda: make(40, stream),
        "kernel crypto": lambda: make(38, socket.SOCK_SEQPACKET),
        "netlink audit": lambda: make(16, socket.SOCK_RAW, 9),
        # 8: listening
        "bind": lambda: bind(v4, own_port=True),
        "bind on v6": lambda: bind(v6, own_port=True),
        # 9: sockets of others
        "abstract socket": lambda: unix("\0" + w["abstract"]),
        "control socket": lambda: unix(f"{out}/control.sock"),
        # 10: processes
        "kill": lambda: os.kill(victim, 0),
        "pidfd": lambda: os.close(os.pidfd_open(victim)),
        "ptrace": lambda: syscall(number(101, 117), 0x4206, victim, 0, 0),
        "process memory": lambda: syscall(number(310, 270), victim, VECTOR, LONG(1), VECTOR, LONG(1), LONG(0)),
        "prlimit": lambda: resource.prlimit(victim, resource.RLIMIT_NOFILE),
        "setpriority": lambda: os.setpriority(os.PRIO_PROCESS, victim, 19),
        "sched_setaffinity": lambda: os.sched_setaffinity(victim, os.sched_getaffinity(0)),
        # 11: /proc of others
        "environ": lambda: read(f"/proc/{victim}/environ"),
        "root of another": lambda: os.listdir(f"/proc/{victim}/root"),
        "tune the kernel": lambda: write("/proc/sys/kernel/core_pattern", 0),
        # 12: the kernel
        "unshare": lambda: in_a_child(lambda: syscall(number(272, 97), CLONE_NEWUSER)),
        "clone": lambda: clone(CLONE_NEWUSER),
        "clone3": lambda: clone3(0),
        "setns": lambda: syscall(number(308, 268), ctypes.c_int(0), 0),
        "mount": lambda: syscall(number(165, 40), None, b"/", None, 0x1000, None),
        "io_uring": lambda: syscall(425, 1, ctypes.create_string_buffer(120)),
        "bpf": lambda: syscall(number(321, 280), 0, None, 0),
        "keyctl": lambda: syscall(number(250, 219), 0, -3, 0),
        "perf": lambda: syscall(number(298, 241), None, 0, -1, -1, 0),
        "userfaultfd": lambda: syscall(number(323, 282), 0x80001),
        "type ahead": lambda: fcntl.ioctl(0, 0x5412, b"x"),
        "x32": lambda: syscall(0x40000000 | 39),
    }


def in_a_child(attack: Callable[[], object]) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(failure(attack) or 0)
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise OSError(code, os.strerror(code))


def failure(attack: Callable[[], object]) -> int | None:
    try:
        attack()
    except OSError as error:
        return error.errno or -1
    return None


if __name__ == "__main__":
    world = json.loads(sys.argv[1])
    found = {name: failure(attack) for name, attack in attacks(world).items()}
    print(
        json.dumps(
            {name: THROUGH if code is None else errno.errorcode.get(code, "?") for name, code in found.items()}
        )
    )
