"""A file that a job is shown is the one that was looked at: what takes its place meanwhile stays unseen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from exocomp.protocol.jobs import Jail
from exocomp.sandbox import enclosure
from exocomp.sandbox.layers import NOT_APPLIED
from exocomp.sandbox.view import base_view
from tests.attempts import sh
from tests.sandbox.people import ENV, PACKAGE, TIERS, Person, jailed


def own_jail(home: Path, tier: str, **more: Any) -> dict[str, Any]:
    """Of whoever runs the tests, as the shim is told it."""
    base = base_view()
    jail = Jail(tier=tier, read=base.read, execute=base.execute, write=(str(home),), **more)
    return dict(msgspec.to_builtins(jail))


def launched(enclosed: enclosure.Enclosed, home: Path) -> subprocess.CompletedProcess[bytes]:
    """What the shim does with it, once the layers and the policy stand."""
    try:
        return subprocess.run(
            enclosed.argv,
            env=dict(enclosed.env),
            cwd=home,
            pass_fds=enclosed.keep,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=60,
        )
    finally:
        enclosed.opened()


def replaced(key: Path) -> None:
    (key.parent / "other").write_text("stolen\n")
    os.rename(key.parent / "other", key)


def linked(key: Path) -> None:
    (key.parent / "other").write_text("stolen\n")
    key.unlink()
    key.symlink_to("other")


def behind_a_link(key: Path) -> None:
    (key.parent.parent / "others").mkdir()
    (key.parent.parent / "others" / key.name).write_text("stolen\n")
    os.rename(key.parent, key.parent.parent / "moved")
    key.parent.symlink_to("others")


@pytest.fixture
def room(tmp_path: Path) -> Path:
    room = tmp_path / "room"
    room.mkdir()
    for name in ("home", "keys"):
        (room / name).mkdir(mode=0o700)
    (room / "keys" / "id").write_text("mine\n")
    return room


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("place", ["its own", "another"])
@pytest.mark.parametrize("swap", [replaced, linked, behind_a_link])
def test_a_file_that_was_replaced_after_the_look_stops_the_job(
    room: Path, tier: str, place: str, swap: Callable[[Path], None]
) -> None:
    key, home = room / "keys" / "id", room / "home"
    at = str(key) if place == "its own" else "/etc/hosts"
    jail = own_jail(home, tier, files=((str(key), at),))
    argv = ["sh", "-c", f"touch {home}/ran; cat {key} {at}"]
    enclosed = enclosure.enclose(argv, ENV, str(home), jail, str(room))
    swap(key)
    done = launched(enclosed, home)
    shown = at if tier == "enforcing" else str(key)
    assert done.returncode == NOT_APPLIED
    why = f"OSError: [Errno 116] was replaced meanwhile: '{shown}'"
    assert done.stderr.decode() == f"exocomp: nothing was run: {why}\n"
    assert not (home / "ran").exists()
    assert not enclosed.was_applied()


@pytest.mark.parametrize("tier", TIERS)
def test_the_file_that_was_looked_at_is_shown(room: Path, tier: str) -> None:
    key, home = room / "keys" / "id", room / "home"
    jail = own_jail(home, tier, files=((str(key), str(key)),))
    enclosed = enclosure.enclose(["cat", str(key)], ENV, str(home), jail, str(room))
    key.write_text("written anew, in place\n")
    done = launched(enclosed, home)
    assert (done.returncode, done.stdout) == (0, b"written anew, in place\n"), done.stderr
    assert enclosed.was_applied()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("kind", ["directory", "fifo", "device", "link", "parent link"])
def test_what_is_no_regular_file_at_its_own_place_is_not_shown(person: Person, tier: str, kind: str) -> None:
    with person.shim() as shim:
        base = person.mkdir(shim.directory.name, "outside")
        person.write(person.mkdir(shim.directory.name, "outside", "keys") / "id")
        shown = {
            "directory": base / "keys",
            "fifo": base / "fifo",
            "device": Path("/dev/null"),
            "link": base / "link",
            "parent link": base / "parent" / "id",
        }[kind]
        os.mkfifo(base / "fifo")
        (base / "link").symlink_to("keys/id")
        (base / "parent").symlink_to("keys")
        jailed(person, shim, sh(f"echo ran; ls {shown}"), tier=tier, files=((str(shown), str(shown)),))
        assert shim.end().code == NOT_APPLIED
        why = "leads through a link" if "link" in kind else "is not a regular file"
        assert shim.log == f"exocomp: nothing was run: {shown} {why}\n".encode()


RESTRICT = """
import sys
sys.path.append(sys.argv[1])
from exocomp.sandbox import kernel, landlock
kernel.prctl(38, 1)
landlock.restrict([(landlock.FILE, sys.argv[2])], [], needed=1)
print("restricted")
"""


def test_a_rule_for_a_file_that_meets_a_directory_holds_nothing_open(room: Path) -> None:
    """The number of a file that was deleted may come back as that of a directory."""

    def restricted(path: Path) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-I", "-S", "-c", RESTRICT, str(PACKAGE.parent), str(path)]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)

    assert restricted(room / "keys" / "id").stdout == "restricted\n"
    refused = restricted(room / "keys")
    assert refused.stdout == ""
    assert f"IsADirectoryError: [Errno 21] Is a directory: '{room / 'keys'}'" in refused.stderr
