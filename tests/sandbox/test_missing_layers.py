"""A machine without one of the layers, made by taking it away: enforcing runs nothing and says what to do."""

from __future__ import annotations

import errno
import json
import os
import subprocess

import pytest

from exocomp.sandbox import landlock, tiers
from exocomp.sandbox.layers import NOT_APPLIED, LayerMissing
from exocomp.sandbox.syscalls import BY_MACHINE
from tests.attempts import sh
from tests.sandbox.people import Person

WORLD = ("bwrap", "--unshare-user", "--dev-bind", "/", "/")
NO_BWRAP = (*WORLD, "--ro-bind", "/dev/null", "/usr/bin/bwrap", "--")
NO_NAMESPACES = (*WORLD, "--disable-userns", "--")
ASK = """
import sys, json; sys.path.append(sys.argv[1])
from exocomp.sandbox import tiers
found = tiers.probe()
print(json.dumps({"achievable": found.achievable, **{layer.name: layer for layer in found.layers}}))
"""


def without(person: Person, number: int, code: int) -> tuple[str, ...]:
    """A prefix under which a system call fails, by a small filter of its own."""
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | code), (0x06, 0, 0, 0x7FFF0000)]
    script = f"""
import ctypes, os, struct, sys
code = b"".join(struct.pack("=HBBI", *step) for step in {steps!r})
buffer = ctypes.create_string_buffer(code, len(code))
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer)))
assert libc.syscall({BY_MACHINE[os.uname().machine].seccomp}, 1, 0, program) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
    return (person.python, "-I", "-S", "-c", script)


MISSING = {
    "bwrap": (lambda _: NO_BWRAP, "namespaces", "install the package bubblewrap", "degraded"),
    "namespaces": (lambda _: NO_NAMESPACES, "namespaces", "allow user namespaces", "degraded"),
    "landlock": (lambda p: without(p, 444, errno.ENOSYS), "Landlock", "CONFIG_SECURITY_LANDLOCK=y", "off"),
    "landlock at boot": (lambda p: without(p, 444, errno.EOPNOTSUPP), "Landlock", "lsm=", "off"),
    "seccomp": (
        lambda p: without(p, BY_MACHINE[os.uname().machine].seccomp, errno.EINVAL),
        "seccomp",
        "CONFIG_SECCOMP_FILTER=y",
        "off",
    ),
}


@pytest.mark.parametrize("what", MISSING)
def test_enforcing_runs_nothing_and_names_the_layer_and_its_cure(person: Person, what: str) -> None:
    under, layer, cure, _ = MISSING[what]
    with person.shim(under=under(person)) as shim:
        home = shim.directory / "home"
        shim.start(sh("touch marker", name="play"), jail=person.jail(home), cwd=str(home))
        ended = shim.end()
        assert (ended.code, ended.command) == (NOT_APPLIED, "play")
        last = shim.log.decode().splitlines()[-1]
        assert last.startswith(f"exocomp: nothing was run: {layer}: "), shim.log
        assert cure in last
        assert not (home / "marker").exists()


@pytest.mark.parametrize("what", MISSING)
def test_the_probe_finds_the_same_and_says_which_tier_is_left(person: Person, what: str) -> None:
    under, layer, cure, left = MISSING[what]
    argv = [*under(person), person.python, "-I", "-S", "-c", ASK, str(person.room)]
    done = subprocess.run(argv, **person.popen, capture_output=True, check=True)
    found = json.loads(done.stdout)
    assert found["achievable"] == left
    _, _, reason, said = found[layer]
    assert reason
    assert cure in said


@pytest.mark.parametrize("what", ["bwrap", "namespaces"])
def test_degraded_and_off_run_without_namespaces_when_an_operator_says_so(person: Person, what: str) -> None:
    for tier in ("degraded", "off"):
        with person.shim(under=MISSING[what][0](person)) as shim:
            home = shim.directory / "home"
            shim.start(sh("echo ran"), jail=person.jail(home, tier), cwd=str(home))
            assert (shim.end().code, shim.log) == (0, b"ran\n")


def test_here_every_layer_works() -> None:
    found = tiers.probe()
    assert found.missing == ()
    assert found.achievable == "enforcing"
    assert [layer.name for layer in found.layers] == ["namespaces", "Landlock", "seccomp"]


def test_an_older_landlock_is_a_missing_layer_that_names_what_it_lets_through() -> None:
    with pytest.raises(LayerMissing) as caught:
        landlock.check(3, 6)
    assert str(caught.value) == (
        "Landlock: the kernel's ABI 3 is older than 6 and lets every TCP port, device ioctls, "
        "signals and abstract sockets through; boot Linux 6.12 or later"
    )
    landlock.check(6, 6)
    landlock.check(9, 6)
