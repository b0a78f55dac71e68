"""The seccomp filter of each machine, run by a small interpreter of classic BPF; and its table of numbers."""

from __future__ import annotations

import errno
import re
import socket
import struct
from pathlib import Path

import pytest

from exocomp.sandbox import seccomp
from exocomp.sandbox.layers import LayerMissing
from exocomp.sandbox.syscalls import BY_MACHINE

MACHINES = sorted(BY_MACHINE)
ALLOW, KILL = "allow", "kill"
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
NEWER_THAN_SOME_HEADERS = {"open_tree_attr"}


def judged(machine: str, number: int, *arguments: int, arch: int | None = None) -> str:
    """What the kernel would do: "allow", "kill", or the name of the error."""
    code = seccomp.program(machine)
    steps = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    call = struct.pack("=IIQ6Q", number, arch or BY_MACHINE[machine].arch, 0, *(arguments + (0,) * 6)[:6])
    at, loaded = 0, 0
    while True:
        operation, yes, no, value = steps[at]
        at += 1
        match operation:
            case 0x20:
                (loaded,) = struct.unpack_from("=I", call, value)
            case 0x54:
                loaded &= value
            case 0x15:
                at += yes if loaded == value else no
            case 0x35:
                at += yes if loaded >= value else no
            case 0x45:
                at += yes if loaded & value else no
            case 0x06:
                names = {0x7FFF0000: ALLOW, 0x80000000: KILL}
                return names.get(value) or errno.errorcode[value & 0xFFFF]
            case _:
                raise AssertionError(f"unknown operation {operation:#x}")


def called(machine: str, name: str, *arguments: int) -> str:
    return judged(machine, BY_MACHINE[machine].judged[name], *arguments)


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_are_tcp_unix_or_routes(machine: str) -> None:
    stream, dgram, flags = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    expected = {
        (socket.AF_INET, stream, 0): ALLOW,
        (socket.AF_INET6, stream | flags, socket.IPPROTO_TCP): ALLOW,
        (socket.AF_UNIX, stream, 0): ALLOW,
        (socket.AF_UNIX, dgram | flags, 0): ALLOW,
        (socket.AF_NETLINK, socket.SOCK_RAW, 0): ALLOW,
        (socket.AF_NETLINK, socket.SOCK_RAW, 9): "EPROTONOSUPPORT",
        **{(socket.AF_INET, stream, protocol): "EPROTONOSUPPORT" for protocol in (132, 256, 262)},
        **{(family, dgram, 0): "EACCES" for family in (socket.AF_INET, socket.AF_INET6)},
        (socket.AF_INET, dgram, 1): "EACCES",
        (socket.AF_INET, socket.SOCK_RAW, 1): "EACCES",
        (socket.AF_INET, 10, 0): "EACCES",
        **{(family, stream, 0): "EAFNOSUPPORT" for family in (0, 17, 21, 38, 40, 43, 44, 46)},
    }
    assert {call: called(machine, "socket", *call) for call in expected} == expected
    assert called(machine, "socketpair", socket.AF_UNIX, stream, 0) == ALLOW
    assert called(machine, "socketpair", 30, stream, 0) == "EAFNOSUPPORT"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("name", "flags"), [("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)])
def test_no_message_may_open_a_connection(machine: str, name: str, flags: int) -> None:
    assert called(machine, name, *[0] * flags, 0x4000) == ALLOW
    assert called(machine, name, *[0] * flags, 0x20004000) == "EACCES"
    assert called(machine, name, *[0x20000000] * flags, 0) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_options_ioctls_and_clone_are_judged_by_their_arguments(machine: str) -> None:
    for option in (23, 30, 31):
        assert called(machine, "setsockopt", 3, socket.IPPROTO_TCP, option) == "EPERM"
        assert called(machine, "setsockopt", 3, socket.SOL_SOCKET, option) == ALLOW
    assert called(machine, "setsockopt", 3, socket.IPPROTO_TCP, socket.TCP_NODELAY) == ALLOW
    for request in (0x5412, 0x541C, 0xDEADBEEF_00005412):
        assert called(machine, "ioctl", 0, request) == "EPERM"
    assert called(machine, "ioctl", 0, 0x5413) == ALLOW
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert called(machine, "clone", flag | 17) == "EPERM"
    assert called(machine, "clone", 0x003D0F00) == ALLOW  # a thread, as the C library starts one
    assert called(machine, "clone3") == "ENOSYS"


@pytest.mark.parametrize("machine", MACHINES)
def test_denied_calls_are_refused_and_everything_else_goes_on(machine: str) -> None:
    table = BY_MACHINE[machine]
    assert {judged(machine, number) for number in table.denied.values()} == {"EPERM"}
    known = {*table.denied.values(), *table.judged.values()}
    assert {judged(machine, number) for number in range(600) if number not in known} == {ALLOW}
    assert judged(machine, 0x40000000 | 39) == "ENOSYS"


def test_calls_of_another_machine_kill() -> None:
    assert judged("x86_64", 1, arch=0x40000003) == KILL
    assert judged("x86_64", 1, arch=BY_MACHINE["aarch64"].arch) == KILL


def test_what_one_machine_denies_the_other_denies_too_if_it_has_it() -> None:
    only_x86 = {"create_module", "uselib", "ustat", "sysfs", "_sysctl", "iopl", "ioperm", "modify_ldt"}
    assert set(BY_MACHINE["x86_64"].denied) - set(BY_MACHINE["aarch64"].denied) == only_x86
    assert set(BY_MACHINE["aarch64"].denied) <= set(BY_MACHINE["x86_64"].denied)


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_the_kernel_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the kernel headers are not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text())
    header = {name: int(number) for name, number in found}
    table = BY_MACHINE[machine]
    ours = {**table.judged, **table.denied, "seccomp": table.seccomp}
    assert {name: header.get(name) for name in ours if name not in NEWER_THAN_SOME_HEADERS} == {
        name: number for name, number in ours.items() if name not in NEWER_THAN_SOME_HEADERS
    }


def test_a_machine_without_a_table_is_a_missing_layer() -> None:
    with pytest.raises(LayerMissing, match="no filter for riscv64; run exocomp on"):
        seccomp.program("riscv64")
