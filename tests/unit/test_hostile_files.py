"""What a job may have written where the daemon reads: no link, pipe, hole or depth of it leads or holds us."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from exocomp.drivers.tofu import files
from exocomp.drivers.tofu.working_copy import WorkingCopy, is_installed

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
