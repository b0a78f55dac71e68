"""How the shim ends a job: cancel, timeout, stragglers, and its own violent death."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from exocomp.sandbox import procs, records
from tests.attempts import Shim, alive, hostile, open_shim, sh, until


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Shim]:
    with open_shim(tmp_path) as shim:
        yield shim


def test_cancel_interrupts_a_job_which_may_save_its_state(shim: Shim) -> None:
    shim.start(sh("trap 'echo saved; exit 5' INT; touch ready; while :; do sleep 0.05; done"), sh("echo next"))
    until((shim.directory / "ready").exists)
    assert shim.process is not None
    shim.process.terminate()
    ended = shim.end()
    assert (ended.code, ended.cancelled, ended.timed_out) == (5, True, False)
    assert shim.log == b"saved\n"


def test_cancel_of_a_job_that_ignores_sigint_goes_on_to_sigterm(shim: Shim) -> None:
    shim.start(sh("trap '' INT; trap 'echo term; exit 6' TERM; touch ready; while :; do sleep 0.05; done"))
    until((shim.directory / "ready").exists)
    assert shim.process is not None
    shim.process.terminate()
    ended = shim.end()
    assert (ended.code, ended.cancelled) == (6, True)
    assert b"term\n" in shim.log


def test_cancel_of_a_job_that_ignores_everything_ends_in_sigkill(shim: Shim) -> None:
    shim.start(sh("trap '' INT TERM; touch ready; while :; do sleep 0.05; done"), grace_s=0.1)
    until((shim.directory / "ready").exists)
    assert shim.process is not None
    shim.process.terminate()
    ended = shim.end()
    assert (ended.code, ended.cancelled) == (-signal.SIGKILL, True)


def test_cancel_reaches_the_whole_process_group(shim: Shim) -> None:
    shim.start(sh("sh -c 'trap \"echo inner; exit\" INT; touch ready; while :; do sleep 0.05; done'"), grace_s=20.0)
    until((shim.directory / "ready").exists)
    assert shim.process is not None
    shim.process.terminate()
    assert shim.end().cancelled
    assert b"inner" in shim.log


def test_a_job_started_with_sigint_ignored_in_the_parent_can_be_cancelled(shim: Shim) -> None:
    shim.start(sh("touch ready; exec sleep 60"), preexec_fn=hostile, grace_s=20.0)
    until((shim.directory / "ready").exists)
    assert shim.process is not None
    shim.process.terminate()
    ended = shim.end()
    assert (ended.code, ended.cancelled) == (-signal.SIGINT, True)


def test_a_cancelled_sequence_never_looks_like_a_success(shim: Shim) -> None:
    shim.start(sh("trap 'exit 0' INT; touch ready; while :; do sleep 0.05; done", name="plan"), sh("echo apply"))
    until((shim.directory / "ready").exists)
    assert shim.process is not None
    shim.process.terminate()
    ended = shim.end()
    assert (ended.code, ended.command, ended.cancelled) == (-signal.SIGINT, "plan", True)
    assert shim.log == b""


def test_the_timeout_bounds_all_commands_together(shim: Shim) -> None:
    ended = shim.run(sh("sleep 0.2", name="one"), sh("exec sleep 60", name="two"), timeout_s=0.5)
    assert (ended.code, ended.command) == (-signal.SIGINT, "two")
    assert (ended.timed_out, ended.cancelled) == (True, False)


def test_a_straggler_that_left_its_session_is_gone_at_the_end(shim: Shim) -> None:
    ended = shim.run(sh("setsid sh -c 'echo $$ > straggler; exec sleep 60' & until test -s straggler; do :; done"))
    assert ended.code == 0
    assert not alive(int((shim.directory / "straggler").read_text()))


def test_a_straggler_that_holds_the_output_open_and_hides_its_environment_delays_nothing(shim: Shim) -> None:
    script = "env -i setsid sh -c 'echo $$ > straggler; trap \"\" TERM INT HUP; while :; do /bin/sleep 1; done' &"
    ended = shim.run(sh(f"{script} until test -s straggler; do :; done; echo done"), sh("echo next"))
    assert ended.code == 0
    assert shim.log == b"done\nnext\n"
    assert not alive(int((shim.directory / "straggler").read_text()))


def test_orphans_that_die_during_the_run_are_buried(shim: Shim) -> None:
    shim.start(sh("(sh -c 'echo $$ > orphan' &); until test -s orphan; do :; done; touch ready; sleep 60"))
    until((shim.directory / "ready").exists)
    orphan = int((shim.directory / "orphan").read_text())
    until(lambda: procs.look_up(orphan) is None)


def test_kill_9_of_the_shim_takes_the_command_down_and_proves_nothing(shim: Shim) -> None:
    shim.start(sh("echo $$ > pid; exec sleep 60"))
    pid = until(lambda: (shim.directory / "pid").exists() and (shim.directory / "pid").read_text())
    assert shim.process is not None
    shim.process.kill()
    shim.process.wait()
    until(lambda: not alive(int(pid)))
    assert not (shim.directory / records.EXIT).exists()
