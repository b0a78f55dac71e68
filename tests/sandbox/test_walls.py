"""Every attack of a hostile job, with its exact error, and proof that each would have worked without the jail."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from exocomp.protocol.jobs import Command
from tests.sandbox.attacks import THROUGH
from tests.sandbox.people import Person
from tests.sandbox.world import World, a_world

GRANTED = {
    "granted file",
    "granted device",
    "granted memory",
    "granted directory",
    "granted port",
    "granted port on v6",
}
ERRORS = {
    "ENOENT": {
        *("read key", "read shadow", "read db", "list data", "list other job", "walk through"),
        *("read by a planted link", "create", "mkdir", "truncate", "rename in", "rename out", "link in"),
        *("stat", "chmod", "utime", "inotify", "read sibling", "control socket", "environ", "root of another"),
        "tune the kernel",
    },
    "EROFS": {
        *("create above", "create in the root", "create in usr"),
        *("write identity", "chmod identity", "unlink identity"),
    },
    "EACCES": {
        *("list root", "list beside identity", "tcp", "tcp on v6", "bind", "bind on v6"),
        *("fast open sendto", "fast open sendto on v6", "fast open sendto, not blocking"),
        *("fast open sendmsg", "fast open sendmsg on v6", "fast open sendmmsg"),
        *("udp", "udp on v6", "raw", "ping"),
    },
    "EPERM": {
        *("fast open connect", "upper protocol", "abstract socket", "ptrace", "process memory"),
        *("unshare", "clone", "setns", "mount", "io_uring", "bpf", "keyctl", "perf", "userfaultfd", "type ahead"),
    },
    "ESRCH": {"kill", "pidfd", "prlimit", "setpriority", "sched_setaffinity"},
    "EPROTONOSUPPORT": {"mptcp", "sctp", "netlink audit"},
    "EAFNOSUPPORT": {"smc", "packet", "vsock", "kernel crypto"},
    "ENOSYS": {"clone3", "x32"},
}
# What kernels may lack, or answer with an error of the argument; test_filter.py proves these rules by themselves.
NOT_EVERYWHERE = {
    *("upper protocol", "mptcp", "sctp", "smc", "ping", "vsock", "kernel crypto", "netlink audit", "process memory"),
    *("setns", "mount", "io_uring", "bpf", "keyctl", "perf", "userfaultfd", "type ahead", "x32", "unshare", "clone"),
}
FOR_ROOT = {"read shadow", "tune the kernel", "create in the root", "create in usr", "raw", "packet"}

ONLY_NAMESPACES = {
    *("stat", "chmod", "utime", "inotify", "chmod identity", "control socket"),
    *("prlimit", "setpriority", "sched_setaffinity", "pidfd"),
}
ONLY_LANDLOCK = {"tcp", "tcp on v6", "bind", "bind on v6", "list root", "abstract socket"}
ONLY_SECCOMP = {"udp", "udp on v6", "clone3"}
FAST_OPEN = {  # Landlock holds it back as well, from some kernel on
    *("fast open sendto", "fast open sendto on v6", "fast open sendto, not blocking"),
    *("fast open sendmsg", "fast open sendmsg on v6", "fast open sendmmsg"),
}


@pytest.fixture(scope="module")
def world(person: Person) -> Iterator[World]:
    with a_world(person) as world:
        yield world


def attacked(world: World, tier: str, *read: str) -> dict[str, str]:
    with world.person.shim() as shim:
        home = shim.directory / "home"
        ended = shim.run(
            Command(name="job", argv=world.argv(home)), jail=world.jail(home, *read, tier=tier), cwd=str(home)
        )
        assert ended.code == 0, shim.log
        return dict(json.loads(shim.log))


def through(found: dict[str, str]) -> set[str]:
    return {name for name, what in found.items() if what == THROUGH}


def test_every_attack_fails_with_its_error_and_the_far_side_saw_nothing(world: World) -> None:
    before = world.state()
    found = attacked(world, "enforcing")
    assert found == {
        **dict.fromkeys(GRANTED, THROUGH),
        **{name: error for error, names in ERRORS.items() for name in names},
    }
    assert world.listeners.drain() == {"granted", "granted6"}
    assert world.state() == before


def test_a_proc_of_its_own_shows_nobody_else_and_changes_nothing(world: World) -> None:
    found = attacked(world, "enforcing", "/proc")
    world.listeners.drain()
    assert through(found) == GRANTED
    assert (found["environ"], found["root of another"], found["tune the kernel"]) == ("ENOENT", "ENOENT", "EACCES")


def test_without_a_jail_the_same_attacks_get_through(world: World) -> None:
    found = attacked(world, "off")
    seen = world.listeners.drain()
    world.restore()
    expected = set(found) - NOT_EVERYWHERE - (set() if world.person.uid == 0 else FOR_ROOT)
    assert expected <= through(found), {name: found[name] for name in expected - through(found)}
    assert seen == set(world.listeners.sockets)


@pytest.mark.parametrize(
    ("layers", "open_then", "who"),
    [
        ({"namespaces": False, "landlock": 6, "seccomp": True}, ONLY_NAMESPACES, {"control"}),
        ({"namespaces": True, "landlock": 0, "seccomp": True}, ONLY_LANDLOCK, {"port", "port6", "abstract"}),
        ({"namespaces": True, "landlock": 6, "seccomp": False}, ONLY_SECCOMP, {"udp"}),
    ],
    ids=["namespaces", "landlock", "seccomp"],
)
def test_without_a_layer_what_it_alone_holds_back_gets_through(
    world: World, layers: dict[str, int], open_then: set[str], who: set[str]
) -> None:
    found = world.peeled(**layers)
    seen = world.listeners.drain()
    world.restore()
    assert open_then <= through(found), {name: found[name] for name in open_then - through(found)}
    assert who <= seen


@pytest.mark.parametrize("seccomp", [True, False], ids=["with seccomp", "without"])
def test_where_landlock_does_not_see_it_seccomp_alone_holds_fast_open_back(world: World, seccomp: bool) -> None:
    found = world.peeled(namespaces=True, landlock=0, seccomp=seccomp)
    world.listeners.drain()
    world.restore()
    assert FAST_OPEN & through(found) == (set() if seccomp else FAST_OPEN)


def test_degraded_keeps_files_and_tcp_though_not_what_namespaces_hold(world: World) -> None:
    found = attacked(world, "degraded")
    seen = world.listeners.drain()
    world.restore()
    assert seen == {"granted", "granted6", "control"}
    kept = {"read db": "EACCES", "create": "EACCES", "truncate": "EACCES", "tcp": "EACCES", "kill": "EPERM"}
    assert {name: found[name] for name in kept} == kept


def test_a_job_may_listen_on_a_port_that_the_kernel_picks_but_on_none_of_its_choice(world: World) -> None:
    script = "import socket; s = socket.socket(); s.listen(); print(s.getsockname()[1] > 0)"
    with world.person.shim() as shim:
        argv = (world.person.python, "-I", "-S", "-c", script)
        home = shim.directory / "home"
        assert shim.run(Command(name="job", argv=argv), jail=world.jail(home), cwd=str(home)).code == 0
        assert shim.log == b"True\n"
