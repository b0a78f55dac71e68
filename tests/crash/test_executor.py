"""Attempts under a daemon that lives: one run each, and the end is told."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from exocomp.actors.executor import LocalExecutor, was_started
from exocomp.errors import ExocompError
from exocomp.protocol.jobs import AttemptSpec, Command
from exocomp.sandbox import records
from exocomp.sandbox.sweep import sweep
from tests.attempts import alive, children, shim_of, spec_of, until


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "jobs" / "job_1" / "1"
    directory.mkdir(parents=True, mode=0o700)
    yield directory
    sweep(directory)


async def test_an_attempt_runs_and_its_exit_is_told_and_no_zombie_stays(directory: Path) -> None:
    before = children()
    executor = LocalExecutor()
    assert not was_started(directory)
    await executor.start(directory, spec_of(directory, "echo one", "echo two; exit 4", "echo three"))
    assert was_started(directory)
    ended = await executor.wait(directory)
    assert ended is not None
    assert (ended.code, ended.command) == (4, "c2")
    assert (directory / records.LOG).read_bytes() == b"one\ntwo\n"
    assert await executor.wait(directory) == ended
    assert children() == before


async def test_a_directory_that_was_ever_started_is_never_started_again(directory: Path) -> None:
    executor = LocalExecutor()
    spec = spec_of(directory, "echo ran")
    await executor.start(directory, spec)
    await executor.start(directory, spec)
    await executor.wait(directory)
    await executor.start(directory, spec)
    await LocalExecutor().start(directory, spec)
    await executor.wait(directory)
    assert (directory / records.LOG).read_bytes() == b"ran\n"


async def test_concurrent_starts_run_once(directory: Path) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(LocalExecutor().start, directory, spec_of(directory, "echo ran"))
    assert await LocalExecutor().wait(directory) is not None
    assert (directory / records.LOG).read_bytes() == b"ran\n"


async def test_a_cancel_right_after_the_start_is_not_lost(directory: Path) -> None:
    executor = LocalExecutor()
    await executor.start(directory, spec_of(directory, "exec sleep 60"))
    await executor.cancel(directory)
    ended = await executor.wait(directory)
    assert ended is not None
    assert ended.cancelled
    assert ended.code == -signal.SIGINT


async def test_cancel_of_what_does_not_run_does_nothing(directory: Path) -> None:
    executor = LocalExecutor()
    await executor.cancel(directory)
    await executor.start(directory, spec_of(directory, "true"))
    ended = await executor.wait(directory)
    await executor.cancel(directory)
    assert await executor.wait(directory) == ended
    assert ended is not None
    assert not ended.cancelled


async def test_a_cancelled_wait_leaves_the_job_running(directory: Path) -> None:
    executor = LocalExecutor()
    await executor.start(directory, spec_of(directory, "until test -e go; do sleep 0.01; done"))
    shim = shim_of(directory)
    with trio.move_on_after(0.1):
        await executor.wait(directory)
    assert alive(shim)
    (directory / "go").touch()
    ended = await executor.wait(directory)
    assert ended is not None
    assert ended.code == 0


async def test_several_may_wait_for_one_attempt(directory: Path) -> None:
    executor = LocalExecutor()
    await executor.start(directory, spec_of(directory, "sleep 0.2; exit 3"))
    codes = []

    async def wait() -> None:
        ended = await executor.wait(directory)
        assert ended is not None
        codes.append(ended.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
    assert codes == [3, 3]


async def test_an_attempt_that_was_never_started_is_lost(directory: Path) -> None:
    assert await LocalExecutor().wait(directory) is None


async def test_a_shim_that_cannot_start_is_an_error_that_names_the_attempt(tmp_path: Path) -> None:
    with pytest.raises(ExocompError, match=r"attempt .*/absent: .*No such file") as caught:
        await LocalExecutor().start(tmp_path / "absent", spec_of(tmp_path, "true"))
    assert caught.value.hint


async def test_neither_argv_nor_environment_nor_files_of_the_shim_show_the_spec(directory: Path) -> None:
    executor = LocalExecutor()
    spec = spec_of(directory, "touch ready; until test -e go; do sleep 0.01; done")
    spec = msgspec.structs.replace(spec, env={**spec.env, "TOKEN": "hush-hush"})
    await executor.start(directory, spec)
    until((directory / "ready").exists)
    shim = Path(f"/proc/{shim_of(directory)}")
    for name in ("cmdline", "environ"):
        assert b"hush" not in (shim / name).read_bytes()
    assert not any(b"hush" in (directory / name).read_bytes() for name in os.listdir(directory))
    (directory / "go").touch()
    await executor.wait(directory)


async def test_paths_and_values_that_are_no_utf_8_reach_the_job(directory: Path) -> None:
    place = os.fsdecode(os.fsencode(directory) + b"/caf\xe9")
    os.mkdir(place)
    executor = LocalExecutor()
    spec = AttemptSpec(commands=(Command(name="c", argv=("/bin/pwd",)),), env={}, cwd=place)
    await executor.start(Path(place), spec)
    ended = await executor.wait(Path(place))
    assert ended is not None
    assert ended.code == 0
    assert (Path(place) / records.LOG).read_bytes() == os.fsencode(place) + b"\n"


def in_a_thread_that_ends(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_job_outlives_the_thread_that_started_it(directory: Path) -> None:
    """trio's threads end after 10 idle seconds, and a parent-death signal follows the thread; here it ends at once.

    The bystander, tied to the thread itself, shows that its end is felt.
    """
    libc = ctypes.CDLL(None)
    bystanders: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        tie = functools.partial(libc.prctl, 1, signal.SIGKILL)
        bystanders.append(subprocess.Popen(["sleep", "60"], preexec_fn=tie))
        trio.run(
            LocalExecutor().start, directory, spec_of(directory, "touch ready; until test -e go; do sleep 0.01; done")
        )
        until((directory / "ready").exists)

    in_a_thread_that_ends(start)
    assert bystanders[0].wait() == -signal.SIGKILL
    assert alive(shim_of(directory))
    (directory / "go").touch()
    ended = trio.run(LocalExecutor().wait, directory)
    assert ended is not None
    assert ended.code == 0
