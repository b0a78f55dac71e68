"""A working copy after a job that meant harm: what it wrote there is put right and leads nowhere."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from exocomp.config import Layout
from exocomp.drivers.tofu import files, marks, state, working_copy
from exocomp.errors import WrongUsage
from exocomp.model import Workspace

pytestmark = pytest.mark.timeout(120)  # only a guard: a FIFO held its reader for ever

LIMIT = 1 << 20
TEXT = 'output "o" { value = "a" }\n'


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    module = tmp_path / "infra" / "edge"
    module.mkdir(parents=True)
    (module / "main.tf").write_text(TEXT)
    return Workspace(name="edge", directory=str(module), root=str(module))


@pytest.fixture
def copy(tmp_path: Path, space: Workspace) -> working_copy.WorkingCopy:
    copy = working_copy.of(space, Layout(tmp_path / "data"))
    working_copy.sync(copy, space, LIMIT)
    return copy


def test_a_file_that_a_job_changed_is_the_users_again_though_size_and_time_say_nothing(
    copy: working_copy.WorkingCopy, space: Workspace
) -> None:
    main = copy.module / "main.tf"
    before = main.stat()
    main.write_text(TEXT.replace('"a"', '"x"'))
    os.utime(main, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = main.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
    working_copy.sync(copy, space, LIMIT)
    assert main.read_text() == TEXT


def test_a_file_that_a_job_replaced_is_the_users_again(copy: working_copy.WorkingCopy, space: Workspace) -> None:
    main, other = copy.module / "main.tf", copy.module / "other"
    other.write_text(TEXT.replace('"a"', '"x"'))
    os.utime(other, ns=(main.stat().st_atime_ns, main.stat().st_mtime_ns))
    other.rename(main)
    working_copy.sync(copy, space, LIMIT)
    assert main.read_text() == TEXT


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_what_a_job_put_in_a_files_place_goes_and_what_it_leads_to_stays(
    kind: str, copy: working_copy.WorkingCopy, space: Workspace, tmp_path: Path
) -> None:
    main, foreign = copy.module / "main.tf", tmp_path / "foreign"
    foreign.write_text("foreign")
    main.unlink()
    if kind == "link":
        main.symlink_to(foreign)
    elif kind == "fifo":
        os.mkfifo(main)
    else:
        main.mkdir()
        (main / "link").symlink_to(foreign)
    working_copy.sync(copy, space, LIMIT)
    assert (main.is_symlink(), main.read_text(), foreign.read_text()) == (False, TEXT, "foreign")


def test_a_file_as_the_job_found_it_is_not_written_again(copy: working_copy.WorkingCopy, space: Workspace) -> None:
    before = (copy.module / "main.tf").stat()
    working_copy.sync(copy, space, LIMIT)
    assert (copy.module / "main.tf").stat().st_ino == before.st_ino
    assert (copy.module / "main.tf").stat().st_ctime_ns == before.st_ctime_ns


def test_what_is_read_where_a_job_writes_is_a_regular_file_of_bounded_size(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 16)
    assert files.read_bytes(path, 16) == b"x" * 16
    refusals = [(path, 15, errno.EFBIG)]
    for name in ("link", "fifo", "hole", "loop"):
        refusals.append((tmp_path / name, 16, {"fifo": errno.EINVAL, "hole": errno.EFBIG}.get(name, errno.ELOOP)))
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "hole").touch()
    os.truncate(tmp_path / "hole", 1 << 40)
    for refused, most, code in refusals:
        with pytest.raises(OSError) as caught:  # noqa: PT011 -- the code is the claim
            files.read_bytes(refused, most)
        assert caught.value.errno == code, refused
    assert files.read_bytes(tmp_path / "link", 16, follow=True) == b"x" * 16


def test_a_file_that_grows_while_it_is_read_gives_no_more_than_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 8)
    fstat = os.fstat

    def then_grow(descriptor: int) -> os.stat_result:
        status = fstat(descriptor)
        if status.st_ino == path.stat().st_ino:
            with path.open("ab") as file:
                file.write(b"y" * 100)
        return status

    monkeypatch.setattr(files.os, "fstat", then_grow)
    assert len(files.read_bytes(path, 16)) == 16


@pytest.mark.parametrize("kind", ["link", "fifo", "hole", "deep"])
def test_a_state_that_is_none_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "terraform.tfstate"
    if kind == "link":
        (tmp_path / "other").write_text('{"version": 4, "resources": []}')
        path.symlink_to("other")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "hole":
        path.touch()
        os.truncate(path, 1 << 40)
    else:
        path.write_text('{"resources": ' + "[" * 200_000)
    with pytest.raises(WrongUsage, match=r"terraform\.tfstate"):
        state.read(path)


def test_a_lock_file_of_any_size_is_digested_within_bounds(tmp_path: Path) -> None:
    lock = tmp_path / ".terraform.lock.hcl"
    lock.touch()
    os.truncate(lock, 1 << 40)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, hard))
    try:
        assert len(marks.lock_digest(str(lock))) == 64
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_an_engine_directory_that_leads_elsewhere_counts_as_not_initialised(
    copy: working_copy.WorkingCopy, tmp_path: Path
) -> None:
    copy.engine_dir.mkdir()
    assert working_copy.is_installed(copy)
    (copy.engine_dir / "providers").symlink_to(tmp_path)
    assert not working_copy.is_installed(copy)


@pytest.mark.parametrize("where", ["the module", "above it"])
def test_a_state_is_not_taken_from_where_a_job_made_the_earlier_module_lead(where: str, tmp_path: Path) -> None:
    copy = working_copy.WorkingCopy(base=tmp_path / "copy", relative="new")
    copy.module.mkdir(parents=True)
    foreign = tmp_path / "foreign" / "old"
    foreign.mkdir(parents=True)
    (foreign / "terraform.tfstate").write_text("{}")
    if where == "the module":
        (copy.tree / "old").symlink_to(foreign)
    else:
        (copy.tree / "live").symlink_to(foreign.parent)
    working_copy._move_state(copy, "old" if where == "the module" else "live/old")
    assert (foreign / "terraform.tfstate").exists()
    assert list(copy.module.iterdir()) == []
