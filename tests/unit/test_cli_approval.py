# ruff: noqa: F811
from __future__ import annotations

import json

import cli_views as v
import pytest
from cli_approvals import ID, approval
from cli_runs import PLAY, Ledger, Run, home, ledger, run  # noqa: F401

from exocomp.approval import ApprovalState
from exocomp.cli import approval_views
from exocomp.model import RunOptions
from exocomp.protocol import approving as a
from exocomp.protocol import commands as c


@pytest.fixture
def asked(ledger: Ledger) -> Ledger:
    ledger.answers[a.ListApprovals] = a.Approvals(approvals=(approval(),))
    ledger.answers[a.ShowApproval] = a.ApprovalView(approval=approval())
    ledger.replies[a.DecideApproval] = c.Done(message=f"{ID} approved")
    return ledger


def test_the_question_shows_what_is_lost_first_and_how_to_decide(run: Run, asked: Ledger) -> None:
    code, out, err = run("approval", "show", ID)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines.index("    - r.old\\x1b[31m  delete") < lines.index("    + r.new  create")
    for told in ("  + web2", "  - web1", "1 to add, 1 to destroy", "/srv/site.yml  project eeeeeeeeeeeeeeee", "ada"):
        assert told in out
    assert lines[-1] == f"decide: exocomp approval decide {ID} --approve   (or --reject --reason WHY)"


def test_a_decided_one_tells_who_and_why_and_asks_no_more() -> None:
    one = approval(state=ApprovalState.REJECTED, decided_at=v.AT + 60, decided_by="bob", reason="not on a Friday")
    text = approval_views.question(one, now=v.AT + 90, color=False)
    assert "by bob: not on a Friday" in text
    assert "decide:" not in text
    assert "expires" not in text


def test_only_open_ones_are_listed_unless_all_are_wanted(run: Run, asked: Ledger) -> None:
    code, out, _ = run("approval", "list")
    assert code == 0
    assert ID in out
    assert "1 to add, 1 to destroy" in out
    run("approval", "list", "--all", "--workflow", v.WF)
    assert [(query.state, query.workflow) for query in asked.asked] == [(ApprovalState.OPEN, None), (None, v.WF)]


def test_json_has_every_change(run: Run, asked: Ledger) -> None:
    found = json.loads(run("approval", "show", ID, "--json")[1])
    assert found["approval"]["proposal"]["changes"][1] == {"name": "r.old\x1b[31m", "action": "delete"}
    assert found["approval"]["expires_at"] == "2023-11-14T23:13:20.000Z"


@pytest.mark.parametrize("flag", ["--approve", "--reject"])
def test_a_decision_is_said_once(run: Run, asked: Ledger, flag: str) -> None:
    assert run("approval", "decide", ID, flag, "--reason", "because")[0] == 0
    assert asked.said == [a.DecideApproval(id=ID, approve=flag == "--approve", reason="because")]


@pytest.mark.parametrize("flags", [(), ("--approve", "--reject")])
def test_a_decision_is_one_of_two(run: Run, asked: Ledger, flags: tuple[str, ...]) -> None:
    code, _, err = run("approval", "decide", ID, *flags)
    assert code == 2
    assert "give one of --approve and --reject" in err
    assert asked.said == []


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("workspace", "apply", "edge", "--require-approval"), RunOptions(require_approval=True)),
        (("workspace", "apply", "edge", "--allow-destroy"), RunOptions(allow_destroy=True)),
        (("workspace", "destroy", "edge", "--yes", "--require-approval"), RunOptions(require_approval=True)),
        (("provision", "run", "edge", PLAY, "--require-approval"), RunOptions(require_approval=True)),
        (("handoff", "run", "edge", PLAY, "--require-approval"), RunOptions(require_approval=True)),
    ],
)
def test_the_flags_of_the_gate_reach_the_order(
    run: Run, ledger: Ledger, words: tuple[str, ...], options: RunOptions
) -> None:
    ledger.replies[c.StartWorkflow] = c.Started(workflow=v.WF)
    assert run(*words)[0] == 0
    (order,) = ledger.said
    assert order.options == options


def test_an_apply_of_a_schedule_may_be_allowed_to_destroy_and_a_play_not(run: Run, ledger: Ledger) -> None:
    ledger.replies[c.AddSchedule] = c.Planned(name="n", fires_at=(v.AT,))
    time = ("schedule", "add", "n", "--cron", "0 0 3 * * *")
    assert run(*time, "--kind", "apply", "--target", "edge", "--allow-destroy")[0] == 0
    (said,) = ledger.said
    assert said.schedule.work.options == RunOptions(allow_destroy=True)
    code, _, err = run(*time, "--target", "tf:edge", "--allow-destroy", "--", PLAY)
    assert code == 2
    assert "--allow-destroy is for an apply" in err


def test_no_block_goes_with_wait(run: Run, ledger: Ledger) -> None:
    code, _, err = run("workspace", "apply", "edge", "--no-block")
    assert code == 2
    assert "--no-block is for --wait" in err
