"""The record's lines as a person sees them, and the verdict on a record, an exit code and a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exocomp.drivers.ansible import outcome, record
from exocomp.drivers.ansible.progress import decode
from exocomp.model import Exit, Generation, Host, Verdict
from exocomp.protocol.jobs import PlayJob, Progress
from exocomp.protocol.queries import HostResult

PLAY = {"e": "play", "name": "site", "pattern": "web", "hosts": ["a", "b"]}
TASK = {"e": "task", "name": "install"}
END = {"e": "end"}


def on(host: str, state: str, msg: str = "", **more: Any) -> dict[str, Any]:
    return {"e": "host", "host": host, "state": state, "task": "install", "msg": msg, **more}


def recap(host: str, **counts: int) -> dict[str, Any]:
    return {"e": "recap", "host": host, **counts}


def judge(
    root: Path, *lines: dict[str, Any], code: int = 0, log: str = "", hosts: str = "ab", **job: Any
) -> tuple[Verdict, tuple[HostResult, ...]]:
    (root / record.PROGRESS).parent.mkdir(exist_ok=True)
    (root / record.PROGRESS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (root / "log").write_text(log)
    generation = Generation(
        inventory="tf:edge",
        number=1,
        path="",
        digest="",
        created_at=0.0,
        hosts=tuple(Host(name=name, address=name) for name in hosts),
    )
    play = PlayJob(playbook="/p/site.yml", generation=generation, **job)
    return outcome.judge(play, Exit(code=code, command="play"), root)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (PLAY, Progress(state="plain", what="play site", detail="2 hosts")),
        ({**PLAY, "hosts": []}, Progress(state="warning", what="play site", detail="no host matches 'web'")),
        (TASK, Progress(state="started", what="install")),
        (on("a", "ok", s=1.5), Progress(state="ok", subject="a", what="install", elapsed_s=1.5)),
        (
            on("a", "failed", "no", ignored=True),
            Progress(state="failed", subject="a", what="install", detail="no (ignored)"),
        ),
        ({"e": "item", "state": "ok", "host": "a", "task": "install"}, None),
        (
            {"e": "item", "state": "failed", "host": "a", "task": "install", "item": "vim", "msg": "gone"},
            Progress(state="plain", subject="a", what="install", detail="failed vim: gone"),
        ),
        (recap("a", ok=2, changed=1), Progress(state="plain", subject="a", what="recap", detail="ok=2 changed=1")),
        ({"e": "warning", "msg": "old"}, Progress(state="warning", detail="old")),
        (END, None),
        ({"e": "of a later version"}, None),
    ],
)
def test_a_line_shows_what_happened(line: dict[str, Any], shown: Progress | None) -> None:
    assert decode(json.dumps(line)) == shown


def test_a_torn_line_shows_nothing() -> None:
    assert decode('{"e": "task", "na') is None
    assert decode("") is None


def test_success_needs_exit_0_and_every_host_in_the_recap(tmp_path: Path) -> None:
    whole = (PLAY, TASK, on("a", "changed"), on("b", "ok"), recap("a", ok=1, changed=1), recap("b", ok=1), END)
    verdict, results = judge(tmp_path, *whole)
    assert verdict == Verdict(ok=True)
    assert [(result.host, result.outcome) for result in results] == [("a", "changed"), ("b", "ok")]
    verdict, _ = judge(tmp_path, *(line for line in whole if line != recap("b", ok=1)))
    assert not verdict.ok
    assert "missing from the recap: b" in verdict.reason


@pytest.mark.parametrize("task", [{**TASK, "some": True}, {**TASK, "some": True, "ends": True}])
def test_a_host_that_no_task_was_due_on_is_not_missing(tmp_path: Path, task: dict[str, Any]) -> None:
    verdict, _ = judge(tmp_path, PLAY, task, recap("a", ok=1), END)
    assert verdict.ok


def test_the_first_unreachable_host_and_its_task_are_named(tmp_path: Path) -> None:
    verdict, results = judge(
        tmp_path,
        PLAY,
        TASK,
        on("a", "failed", "disk full"),
        on("b", "unreachable", "Host key verification failed."),
        recap("a", failed=1),
        recap("b", unreachable=1),
        END,
        code=4,
    )
    assert verdict.reason == (
        "host b was unreachable at task 'install': Host key verification failed. "
        "(2 of 2 hosts failed or were unreachable)"
    )
    assert "exocomp host onboard b" in verdict.hint
    assert "--rotate" in verdict.hint
    assert [result.outcome for result in results] == ["failed", "unreachable"]


def test_a_rescued_or_ignored_fault_is_none(tmp_path: Path) -> None:
    lines = (PLAY, TASK, on("a", "failed", "x"), on("b", "failed", "y", ignored=True))
    verdict, _ = judge(tmp_path, *lines, recap("a", ok=1, rescued=1), recap("b", ok=1, ignored=1), END)
    assert verdict.ok


def test_hosts_count_by_their_tasks_when_the_play_was_cut_short(tmp_path: Path) -> None:
    verdict, results = judge(tmp_path, PLAY, TASK, on("a", "changed"), code=-9)
    assert verdict.reason == "ansible-playbook was killed by SIGKILL"
    assert [(result.host, result.outcome) for result in results] == [("a", "changed")]


def test_an_exit_code_without_a_faulty_host_is_explained_by_the_log(tmp_path: Path) -> None:
    log = "[WARNING]: Could not match the pattern\n\x1b[0;31m[ERROR]: leaves us with no hosts\x1b[0m\n"
    verdict, results = judge(tmp_path, code=1, log=log, limit="zz")
    assert verdict.reason == "ansible-playbook exited with code 1: leaves us with no hosts"
    assert "--limit" in verdict.hint
    assert results == ()


def test_exit_0_without_a_record_is_no_success(tmp_path: Path) -> None:
    verdict, _ = judge(tmp_path)
    assert not verdict.ok
    (tmp_path / record.PROGRESS).unlink()
    assert record.read(tmp_path).ended is False


def test_cancel_and_timeout_are_named_as_such(tmp_path: Path) -> None:
    job = PlayJob(
        playbook="/p",
        generation=Generation(inventory="tf:edge", number=1, path="", digest="", hosts=(), created_at=0.0),
    )
    assert "cancelled" in outcome.judge(job, Exit(code=-2, command="play", cancelled=True), tmp_path)[0].reason
    assert "in time" in outcome.judge(job, Exit(code=-2, command="play", timed_out=True), tmp_path)[0].reason
