from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cli_views as v
import msgspec
import pytest
import trio
from cli_approvals import approval
from fake_daemon import FakeDaemon, Say, in_thread

from exocomp.approval import Approval
from exocomp.cli import main
from exocomp.model import RunState, StepState
from exocomp.protocol import codec
from exocomp.protocol import commands as c
from exocomp.protocol import events as e
from exocomp.protocol import queries as q
from exocomp.protocol.approving import Approvals, ListApprovals
from exocomp.protocol.jobs import Progress


class Chain:
    """A daemon that runs one workflow as the events say; its view has ended once the last one was sent."""

    def __init__(self, end: RunState = RunState.SUCCEEDED, *, drop_after: int | None = None) -> None:
        self.end = end
        self.drop_after = drop_after
        self.over = False
        self.interrupt = False
        self.daemon = FakeDaemon(self.answer)
        self.events = [
            e.WorkflowStarted(workflow=v.WF, workspace="edge", kind="provision", steps=("apply", "wait")),
            self.moved("apply", "ready", "running", job="job_apply", attempt=1),
            self.moved("apply", "running", "succeeded", job="job_apply"),
            self.moved("wait", "ready", "running", job="job_wait", attempt=1),
            e.HostAnswered(workflow=v.WF, host="web1", address="203.0.113.5", port=22, after_s=2.0),
            e.WorkflowEnded(workflow=v.WF, state=end, reason="" if end == RunState.SUCCEEDED else "it broke"),
        ]

    @staticmethod
    def moved(step: str, old: str, new: str, **more: Any) -> e.StepMoved:
        return e.StepMoved(workflow=v.WF, step=step, stage=step, old=StepState(old), new=StepState(new), **more)

    async def answer(self, frame: Any, say: Say) -> None:
        match frame:
            case codec.Do(command=c.StartWorkflow() | c.RetryWorkflow()):
                await say(codec.Reply(id=frame.id, reply=c.Started(workflow=v.WF)))
            case codec.Do():
                await say(codec.Refused(id=frame.id, code="not_found", what="no such thing"))
            case codec.Ask(query=q.ShowWorkflow()):
                state = self.end if self.over else RunState.RUNNING
                view = msgspec.structs.replace(v.RUNNING, workflow=v.flow(state))
                await say(codec.Answer(id=frame.id, answer=view))
            case codec.Ask(query=q.ShowJob()):
                await say(codec.Answer(id=frame.id, answer=v.job_view("/d")))
            case codec.Follow(since=since):
                await self.follow(frame.id, since, say)
            case codec.FollowLog(job="job_apply", stream="progress"):
                line = msgspec.json.encode(Progress(state="ok", subject="terraform_data.vm", what="create")).decode()
                await say(codec.LogChunk(id=frame.id, offset=9, text=f"{line}\n"))
                await say(codec.Ended(id=frame.id))
            case codec.FollowLog():
                await say(codec.Ended(id=frame.id))

    async def follow(self, id: int, since: int, say: Say) -> None:
        for seq, event in enumerate(self.events, 8):
            if seq <= since:
                continue
            if self.interrupt and seq == 12:
                await trio.sleep(0.2)
                os.kill(os.getpid(), signal.SIGINT)
                return
            self.over = isinstance(event, e.WorkflowEnded)
            await say(codec.EventsHappened(id=id, events=(e.Recorded(seq=seq, at=v.AT, event=event),)))
            if seq == self.drop_after:
                self.drop_after = None
                await trio.sleep(0.05)
                self.daemon.drop()


@pytest.fixture
def socket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short path, named to every command and to the processes that tests start."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "s"
        (Path(directory) / "site.yml").write_text("[]")
        monkeypatch.chdir(directory)
        monkeypatch.setenv("EXOCOMP_SOCKET", str(path))
        monkeypatch.setenv("EXOCOMP_DATA_DIR", f"{directory}/d")
        (Path(directory) / "config.toml").write_text("")
        monkeypatch.setenv("EXOCOMP_CONFIG", f"{directory}/config.toml")
        yield path


RUN = ["provision", "run", "edge", "site.yml", "--wait"]


def test_plain_lines_tell_the_chain_in_order_and_end_with_the_ledger(
    socket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with in_thread(Chain().daemon, socket):
        assert main.main(RUN) == 0
    out, err = capsys.readouterr()
    assert err == ""
    told = [line.split()[1:4] for line in out.splitlines()[:7]]
    assert told == [
        ["provision", "started", v.WF],
        ["apply", "running", "job_apply"],
        ["apply", "ok", "terraform_data.vm"],
        ["apply", "succeeded"],
        ["wait", "running", "job_wait"],
        ["wait", "answered", "web1"],
        ["workflow", "succeeded", v.WF],
    ]
    assert all(re.match(r"[0-9:]{8}  ", line) for line in out.splitlines()[:7])
    assert f"provision {v.WF}  edge /srv/site.yml" in out


def test_json_lines_are_the_events_and_then_the_summary(socket: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with in_thread(Chain().daemon, socket):
        assert main.main([*RUN, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["seq"] for line in lines[:-1]] == [8, 9, 10, 11, 12, 13]
    assert lines[0]["event"]["type"] == "workflow_started"
    assert (lines[-1]["type"], lines[-1]["workflow"]["state"]) == ("workflow", "succeeded")


@pytest.mark.parametrize("end", [RunState.FAILED, RunState.CANCELLED])
def test_a_chain_that_does_not_succeed_is_exit_1(
    socket: Path, capsys: pytest.CaptureFixture[str], end: RunState
) -> None:
    with in_thread(Chain(end).daemon, socket):
        assert main.main(["provision", "retry", v.WF, "--wait"]) == 1
    assert "it broke" in capsys.readouterr().out


def test_why_a_step_failed_is_not_said_again_by_the_workflow(
    socket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = Chain(RunState.FAILED)
    failed = chain.moved("wait", "running", "failed", reason="web1 is silent", hint="wake it")
    ended = e.WorkflowEnded(workflow=v.WF, state=RunState.FAILED, reason="wait: web1 is silent", hint="wake it")
    chain.events[-1:] = [failed, ended]
    with in_thread(chain.daemon, socket):
        assert main.main(RUN) == 1
    out = capsys.readouterr().out
    assert out.count("web1 is silent (wake it)") == 1
    assert re.search(rf"workflow +failed +{v.WF}\n", out)


def test_watching_what_has_ended_shows_it_and_exits_with_its_result(
    socket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = Chain(RunState.FAILED)
    chain.over = True
    with in_thread(chain.daemon, socket):
        assert main.main(["provision", "watch", "latest"]) == 1
    assert capsys.readouterr().out.strip().startswith(f"provision {v.WF}")


def test_a_restart_of_the_daemon_does_not_end_the_watching(socket: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with in_thread(Chain(drop_after=10).daemon, socket):
        assert main.main([*RUN, "--json"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line).get("seq") for line in out.splitlines()[:-1]] == [8, 9, 10, 11, 12, 13]
    assert err.splitlines() == [
        "note: the connection to the daemon is lost; waiting for it to come back",
        "note: the daemon is back",
    ]


def test_ctrl_c_detaches_and_names_both_ways_on(socket: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chain = Chain()
    chain.interrupt = True
    with in_thread(chain.daemon, socket):
        assert main.main(RUN) == 130
    err = capsys.readouterr().err
    assert f"exocomp provision watch {v.WF}" in err
    assert f"exocomp provision cancel {v.WF}" in err
    assert not any(
        isinstance(frame, codec.Do) and isinstance(frame.command, c.CancelWorkflow) for frame in chain.daemon.frames
    )


class Waiting(Chain):
    """Its view shows a step that waits; `asked` are the questions that are open when somebody looks."""

    def __init__(self, *asked: Approval) -> None:
        super().__init__()
        self.asked = asked

    async def answer(self, frame: Any, say: Say) -> None:
        match frame:
            case codec.Ask(query=ListApprovals()):
                await say(codec.Answer(id=frame.id, answer=Approvals(approvals=self.asked)))
            case codec.Ask(query=q.ShowWorkflow()) if not self.over:
                first = v.RUNNING.steps[0]
                step = msgspec.structs.replace(first.step, state=StepState.WAITING)
                steps = (msgspec.structs.replace(first, step=step), *v.RUNNING.steps[1:])
                await say(codec.Answer(id=frame.id, answer=msgspec.structs.replace(v.RUNNING, steps=steps)))
            case _:
                await super().answer(frame, say)


def test_without_blocking_an_open_question_is_shown_and_exit_4(
    socket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with in_thread(Waiting(approval()).daemon, socket):
        assert main.main(["provision", "watch", v.WF, "--no-block"]) == 4
    out, err = capsys.readouterr()
    assert "decide: exocomp approval decide ap_06f2 --approve" in out
    assert f"{v.WF} waits for an approval" in err


@pytest.mark.parametrize("flags", [(), ("--no-block",)])
def test_a_question_that_was_answered_meanwhile_ends_no_watching(
    socket: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    with in_thread(Waiting().daemon, socket):
        assert main.main(["provision", "watch", v.WF, *flags]) == 0
    assert "decide:" not in capsys.readouterr().out


def test_events_follow_until_ctrl_c(socket: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chain = Chain()
    chain.interrupt = True
    with in_thread(chain.daemon, socket):
        assert main.main(["events", "--follow", "--json"]) == 130
    assert [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()] == [8, 9, 10, 11]


def test_a_refused_command_is_its_own_error(socket: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with in_thread(Chain().daemon, socket):
        assert main.main(["provision", "cancel", "wf_nope"]) == 5
    assert capsys.readouterr().err == "error: no such thing\n"


def in_terminal(*argv: str, **env: str) -> tuple[int, str]:
    leader, follower = pty.openpty()
    termios.tcsetwinsize(leader, (24, 100))
    process = subprocess.Popen(
        [sys.executable, "-m", "exocomp.cli.main", *argv],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", **env},
    )
    os.close(follower)
    seen = b""
    with suppress(OSError):  # EIO: the last writer is gone (pty(7))
        while chunk := os.read(leader, 65536):
            seen += chunk
    os.close(leader)
    return process.wait(), seen.decode()


def test_a_terminal_gets_a_picture_and_then_the_ledger(socket: Path) -> None:
    with in_thread(Chain().daemon, socket):
        code, seen = in_terminal(*RUN)
    assert code == 0
    assert "\x1b[" in seen
    assert "configure" in seen
    assert seen.rstrip().splitlines()[-1].startswith("configure")
    assert "Traceback" not in seen


def test_no_color_means_no_color_on_a_terminal_too(socket: Path) -> None:
    with in_thread(Chain().daemon, socket):
        code, seen = in_terminal(*RUN, NO_COLOR="1")
    assert code == 0
    assert not re.search("\x1b\\[[0-9;]+m", seen)
