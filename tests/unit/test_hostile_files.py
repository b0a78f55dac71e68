"""What a job may have written where the daemon reads: no link, pipe, hole or depth of it leads or holds us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from exocomp.actors import walls
from exocomp.drivers.tofu import files
from exocomp.drivers.tofu.working_copy import WorkingCopy, _move_state, is_installed
from exocomp.sandbox import view

SECRET = "what only the daemon may read"
DEEP = "[" * 200_000
# A guard only: whoever waits at a pipe or walks a hole never comes back.
GUARD = pytest.mark.usefixtures("guarded")


@pytest.fixture
def guarded():
    import signal

    def stop(*_: object) -> None:
        raise AssertionError("the daemon is held")

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


def link(path: Path) -> None:
    path.with_name("elsewhere").write_text(SECRET)
    path.symlink_to(path.with_name("elsewhere"))


def hole(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


HARMS: dict[str, Callable[[Path], None]] = {
    "link": link,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "pipe": os.mkfifo,
    "hole": hole,
    "directory": Path.mkdir,
    "deep": lambda path: path.write_text(DEEP) and None,
    "bytes": lambda path: path.write_bytes(os.urandom(4096)) and None,
}
harms = pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)


@GUARD
@harms
def test_a_record_of_the_working_copy_is_empty_then(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    harm(tmp_path / "record.json")
    assert files.read_record(tmp_path / "record.json") == {}


@GUARD
@harms
def test_what_an_init_installed_counts_as_gone_then(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    copy = WorkingCopy(base=tmp_path, relative=".")
    (copy.engine_dir / "modules").mkdir(parents=True)
    copy.tree.mkdir()
    modules = copy.engine_dir / "modules" / "modules.json"
    modules.write_text(json.dumps({"Modules": [{"Dir": "."}]}))
    assert is_installed(copy)
    modules.unlink()
    harm(modules)
    assert not is_installed(copy)


@pytest.mark.parametrize(
    "told",
    [{"Modules": 5}, {"Modules": [5]}, {"Modules": [{"Dir": 5}]}, {"Modules": [{"Dir": "\0"}]}],
)
def test_nonsense_of_an_init_counts_as_gone(tmp_path: Path, told: object) -> None:
    copy = WorkingCopy(base=tmp_path, relative=".")
    (copy.engine_dir / "modules").mkdir(parents=True)
    (copy.engine_dir / "modules" / "modules.json").write_text(json.dumps(told))
    assert not is_installed(copy)


def test_a_state_is_not_moved_through_a_link(tmp_path: Path) -> None:
    copy = WorkingCopy(base=tmp_path / "copy", relative="new")
    copy.module.mkdir(parents=True)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "terraform.tfstate").write_text(SECRET)
    (copy.tree / "old").symlink_to(foreign)
    _move_state(copy, "old")
    assert (foreign / "terraform.tfstate").read_text() == SECRET
    assert list(copy.module.iterdir()) == []
    (copy.tree / "old").unlink()
    (copy.tree / "old").mkdir()
    (copy.tree / "old" / "terraform.tfstate").write_text("{}")
    _move_state(copy, "old")
    assert [path.name for path in copy.module.iterdir()] == ["terraform.tfstate"]


@pytest.mark.parametrize(
    "log",
    [
        "/" * 131_072,
        "/a" * 65_536,
        "connect(" * 16_384,
        "no such file " * 10_000,
        "connect to x port " * 7_000,
        "'\\\"" * 40_000,
    ],
    ids=["slashes", "paths", "connects", "absences", "ports", "quotes"],
)
def test_a_log_made_to_hold_up_the_patterns_is_judged_all_the_same(log: str) -> None:
    """In a process of its own, because a pattern that backtracks cannot be interrupted."""
    program = (
        "import sys\nfrom exocomp.actors import walls\nlog = sys.stdin.read()\n"
        "for pattern in (walls._PORT, walls._UNNAMED_PORT, walls._PATH):\n"
        "    sum(1 for _ in pattern.finditer(log))\nprint('judged')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=log, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "judged\n"
    assert walls.tail(Path("/nowhere")) == ""


def jail(source: Path, place: str = "/etc/shown", **more: object) -> dict[str, object]:
    fields: dict[str, object] = {
        "write": [],
        "execute": [],
        "read": [],
        "files": [(str(source), place)],
        "connect": [],
    }
    return fields | more


@pytest.mark.parametrize("harm", ["link to a device", "pipe", "directory"])
def test_only_a_regular_file_is_shown_to_a_job(tmp_path: Path, harm: str) -> None:
    HARMS[harm](tmp_path / "shown")
    with pytest.raises(view.BadJail, match="is not a regular file"):
        view.look(jail(tmp_path / "shown"), str(tmp_path), (), mounted=True)


def test_a_file_that_is_shown_at_its_own_place_lies_behind_no_link(tmp_path: Path) -> None:
    (tmp_path / "true").write_text("x")
    (tmp_path / "shown").symlink_to(tmp_path / "true")
    with pytest.raises(view.BadJail, match="leads through a link"):
        view.look(jail(tmp_path / "shown", str(tmp_path / "shown")), str(tmp_path), (), mounted=True)
    ((place, device, inode),) = view.look(jail(tmp_path / "true"), str(tmp_path), (), mounted=True).files
    status = (tmp_path / "true").stat()
    assert (place, device, inode) == ("/etc/shown", status.st_dev, status.st_ino)
