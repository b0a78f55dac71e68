"""Attempts whose daemon or shim is killed: adopted or lost, never run twice, nothing left over."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from exocomp.actors.executor import LocalExecutor, was_started
from exocomp.sandbox import procs, records
from exocomp.sandbox.sweep import sweep
from tests.attempts import alive, bystander, daemon, kill_daemon, pid_in, shim_of, spec_of, until


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "jobs" / "job_1" / "1"
    directory.mkdir(parents=True, mode=0o700)
    yield directory
    sweep(directory)


async def test_two_daemons_on_one_attempt_run_it_once_and_both_know_the_end(directory: Path) -> None:
    spec = spec_of(directory, "echo ran; sleep 0.3; exit 9")
    daemons = [daemon(directory, spec) for _ in range(3)]
    told = [await trio.to_thread.run_sync(process.communicate) for process in daemons]
    assert all("code=9" in out for out, _ in told)
    assert (directory / records.LOG).read_bytes() == b"ran\n"


async def test_a_job_is_adopted_after_kill_9_of_the_daemon(directory: Path) -> None:
    process = daemon(directory, spec_of(directory, "echo ran; until test -e go; do sleep 0.01; done; exit 5"))
    shim = shim_of(directory)
    kill_daemon(process)
    assert alive(shim)
    executor = LocalExecutor()
    await executor.start(directory, spec_of(directory, "echo ran"))
    (directory / "go").touch()
    ended = await executor.wait(directory)
    assert ended is not None
    assert ended.code == 5
    assert (directory / records.LOG).read_bytes() == b"ran\n"
    assert not alive(shim)


@pytest.mark.parametrize("delay_s", [0.0, 0.005, 0.02, 0.05, 0.1])
async def test_kill_9_of_the_daemon_around_the_start_never_leads_to_two_runs(directory: Path, delay_s: float) -> None:
    spec = spec_of(directory, "echo ran")
    process = daemon(directory, spec)
    until(lambda: was_started(directory))
    time.sleep(delay_s)  # noqa: ASYNC251
    kill_daemon(process)
    executor = LocalExecutor()
    await executor.start(directory, spec)
    ended = await executor.wait(directory)
    log = directory / records.LOG
    assert (log.read_bytes() if log.exists() else b"") == (b"ran\n" if ended else b"")


async def test_a_job_that_finished_while_no_daemon_was_up_is_read_from_its_exit(directory: Path) -> None:
    process = daemon(directory, spec_of(directory, "until test -e go; do sleep 0.01; done; exit 6"))
    shim = shim_of(directory)
    kill_daemon(process)
    (directory / "go").touch()
    until(lambda: not alive(shim))
    ended = await LocalExecutor().wait(directory)
    assert ended is not None
    assert ended.code == 6


async def test_an_adopted_job_can_be_cancelled(directory: Path) -> None:
    process = daemon(directory, spec_of(directory, "touch ready; exec sleep 60"))
    until((directory / "ready").exists)
    kill_daemon(process)
    executor = LocalExecutor()
    await executor.cancel(directory)
    ended = await executor.wait(directory)
    assert ended is not None
    assert (ended.code, ended.cancelled) == (-signal.SIGINT, True)


async def test_kill_9_of_the_shim_loses_the_attempt_and_nothing_of_it_lives_on(directory: Path) -> None:
    executor = LocalExecutor()
    script = "setsid sh -c 'echo $$ > away; exec sleep 60' & sh -c 'echo $$ > near; sleep 60; :'"
    await executor.start(directory, spec_of(directory, script))
    pids = [pid_in(directory / name) for name in ("away", "near")]
    os.kill(shim_of(directory), signal.SIGKILL)
    assert await executor.wait(directory) is None
    assert not any(map(alive, pids))
    assert sweep(directory) == 0
    await executor.start(directory, spec_of(directory, "touch again"))
    assert await executor.wait(directory) is None
    assert not (directory / "again").exists()


@pytest.mark.parametrize("stranger", ["another start time", "another boot"])
async def test_a_recycled_pid_or_one_of_another_boot_is_never_adopted_nor_signalled(
    directory: Path, stranger: str
) -> None:
    with bystander() as process:
        found = procs.look_up(process.pid)
        assert found is not None
        record = {"pid": process.pid, "starttime": found.started, "boot_id": procs.boot_id()}
        record |= {"boot_id": "0" * 36} if stranger == "another boot" else {"starttime": found.started - 1}
        records.write_record(str(directory), records.SHIM, record)
        lock = os.open(directory / records.LOCK, os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        executor = LocalExecutor()
        with trio.move_on_after(0.2) as scope:
            await executor.cancel(directory)
        assert scope.cancelled_caught  # it keeps looking for a shim that may yet name itself
        os.close(lock)
        with trio.fail_after(5):
            assert await executor.wait(directory) is None
        assert process.poll() is None
        process.kill()


async def test_a_held_lock_without_a_name_is_waited_for(directory: Path) -> None:
    lock = os.open(directory / records.LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)

    async def end() -> None:
        await trio.sleep(0.1)
        records.write_record(str(directory), records.EXIT, {"code": 8, "command": "late"})
        os.close(lock)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        ended = await LocalExecutor().wait(directory)
    assert ended is not None
    assert ended.code == 8


@pytest.mark.parametrize("rest", [b"", b"{", b'{"code": "x"}'])
async def test_an_unreadable_exit_proves_nothing(directory: Path, rest: bytes) -> None:
    (directory / records.LOCK).touch()
    (directory / records.EXIT).write_bytes(rest)
    (directory / records.SHIM).write_bytes(rest)
    assert await LocalExecutor().wait(directory) is None
