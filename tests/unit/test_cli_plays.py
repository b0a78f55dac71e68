# ruff: noqa: F811
from __future__ import annotations

import json
from pathlib import Path

import cli_converging as s
import cli_views as v
import pytest
from cli_runs import PLAY, Ledger, Run, home, ledger, run  # noqa: F401
from msgspec.structs import replace

from exocomp.cli import views
from exocomp.cli.board import Board
from exocomp.model import RunOptions, StepRow, StepState
from exocomp.protocol import commands as c
from exocomp.protocol import converging as g
from exocomp.protocol import queries as q

RULE = ("playbook", "rule", "add", "greet", "--on", "host.joined")


def play() -> q.WorkflowView:
    """A play that has not begun."""
    flow = v.flow(kind="play", workspace="edge", inventory="tf:edge", origin="schedule:nightly", key="edge")
    row = StepRow(workflow=v.WF, position=0, name="play", stage="play", state=StepState.READY)
    return q.WorkflowView(workflow=flow, steps=(q.StepView(step=row, attempts=0, hosts=()),))


def test_a_play_is_started_over_an_inventory(run: Run, ledger: Ledger, home: Path) -> None:
    ledger.replies[c.StartWorkflow] = c.Started(workflow=v.WF)
    code, out, err = run("playbook", "run", PLAY, "-i", "tf:edge", "-C", "-l", "web1", "--egress", "2222")
    assert (code, out) == (0, f"{v.WF}\n")
    assert f"exocomp provision watch {v.WF}" in err
    options = RunOptions(check=True, limit="web1", egress=(2222,))
    assert ledger.said == [
        c.StartWorkflow(kind="play", inventory="tf:edge", playbook=str(home / PLAY), options=options)
    ]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["playbook", "run", PLAY], "--inventory"),
        (["playbook", "run", "-i", "tf:edge"], "requires an argument"),
        (["playbook", "run", "none.yml", "-i", "tf:edge"], "none.yml"),
        ([*RULE, "--", PLAY], "a play needs an inventory"),
        ([*RULE, "--inventory", "tf:edge"], "after `--`"),
        ([*RULE, "--inventory", "tf:edge", PLAY], "stand after `--`"),
        ([*RULE, "--inventory", "a", "--target", "b", "--", PLAY], "two inventories"),
        ([*RULE, "--kind", "apply"], "--target"),
        ([*RULE, "--kind", "apply", "--inventory", "tf:edge"], "name the workspace with --target"),
        ([*RULE, "--kind", "apply", "--target", "edge", "--", PLAY], "runs no playbook"),
        ([*RULE, "--match", "host", "--inventory", "tf:edge", "--", PLAY], "--match 'host'"),
        (["playbook", "rule", "add", "a b", *RULE[4:], "--inventory", "tf:edge", "--", PLAY], "'a b'"),
        (["playbook", "rule", "remove", "greet"], "--yes"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_with_a_play_or_a_rule_is_named(run: Run, ledger: Ledger, argv: list[str], words: str) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert words in err
    assert ledger.said == []


def test_a_rule_is_added_with_all_that_it_matches(run: Run, ledger: Ledger, home: Path) -> None:
    code, out, _ = run(
        *RULE,
        *("--match", "host=web*", "--match", "inventory=tf:edge", "--inventory", "tf:edge", "--egress", "2222"),
        *("--", PLAY, "--limit", "{host}"),
    )
    assert (code, out) == (0, "done\n")
    (said,) = ledger.said
    assert (said.rule.on, said.rule.match) == ("host.joined", {"host": "web*", "inventory": "tf:edge"})
    assert (said.rule.work.target, said.rule.work.playbook) == ("tf:edge", str(home / PLAY))
    assert said.rule.work.options == RunOptions(limit="{host}", egress=(2222,))


def test_a_rule_may_apply_a_workspace(run: Run, ledger: Ledger) -> None:
    assert run(*RULE, "--kind", "apply", "--target", "dns")[0] == 0
    assert (ledger.said[0].rule.work.kind, ledger.said[0].rule.work.target) == ("apply", "dns")


def test_the_verbs_of_a_rule_say_their_command(run: Run, ledger: Ledger) -> None:
    for verb in (["enable"], ["disable"], ["remove", "--yes"]):
        assert run("playbook", "rule", verb[0], "greet", *verb[1:])[:2] == (0, "done\n")
    assert ledger.said == [c.EnableRule(name="greet"), c.DisableRule(name="greet"), c.RemoveRule(name="greet")]


def test_rules_are_listed_shown_and_have_a_history(run: Run, ledger: Ledger) -> None:
    last = s.fire(source="rule", name="greet", due_at=None, event=41)
    view = g.RuleView(rule=s.rule(), last=last, fails_closed="no hosts", hint="apply edge")
    off = g.RuleView(rule=s.rule(name="off", enabled=False))
    ledger.answers = {
        g.ListRules: g.Rules(rules=(view, off)),
        g.ShowRule: view,
        g.ListFires: g.Fires(fires=(last,)),
    }
    head, bad, reason, hint, disabled = run("playbook", "rule", "list")[1].splitlines()
    assert head.split() == ["NAME", "ON", "TARGET", "LAST", "STATE"]
    assert "host.joined host=web*  play tf:edge  started " in bad
    assert (reason, hint) == ("    no hosts", "    hint: apply edge")
    assert disabled.endswith("disabled")
    out = run("playbook", "rule", "show", "greet")[1]
    assert "match      host=web*" in out
    assert "playbook   /srv/converge.yml" in out
    assert "event      41" in out
    assert run("playbook", "rule", "history", "greet")[1].splitlines()[1].split()[0] == "41"
    assert json.loads(run("playbook", "rule", "show", "greet", "--json")[1])["rule"]["on"] == "host.joined"


def test_the_ledger_view_of_a_play_names_its_inventory_and_what_started_it(run: Run, ledger: Ledger) -> None:
    ledger.answers[q.ShowWorkflow] = replace(play(), generation=3)
    heading, state = run("provision", "status", v.WF)[1].splitlines()[:2]
    assert heading == f"play {v.WF}  tf:edge /srv/site.yml"
    by = "by schedule:nightly  key edge"
    assert state.endswith(f"inventory tf:edge generation 3  {by}  queued behind the one of its key that runs")
    (step,) = play().steps
    begun = replace(play(), steps=(replace(step, attempts=1, step=replace(step.step, state=StepState.RUNNING)),))
    assert views.ledger(begun, now=v.AT).splitlines()[1].endswith(by)
    assert Board(begun).title == f"play {v.WF} tf:edge /srv/site.yml"


def test_the_list_has_plays_with_their_inventory_and_can_be_narrowed(run: Run, ledger: Ledger) -> None:
    ledger.answers[q.ListWorkflows] = q.Workflows(workflows=(play(), v.ENDED))
    head, one, other = run("provision", "list")[1].splitlines()
    assert head.split() == ["ID", "KIND", "STATE", "AT", "TARGET", "PLAYBOOK", "STARTED", "TOOK", "BY"]
    assert one.split()[:6] == [v.WF, "play", "running", "queued", "tf:edge", "site.yml"]
    assert one.split()[-1] == "schedule:nightly"
    assert other.split()[3:5] == ["edge", "site.yml"]
    run("provision", "list", "--inventory", "tf:edge")
    run("provision", "list", "--origin", "schedule:nightly")
    kinds = ("provision", "handoff", "play")
    assert ledger.asked == [
        q.ListWorkflows(kinds=kinds, limit=20),
        q.ListWorkflows(kinds=kinds, inventory="tf:edge", limit=20),
        q.ListWorkflows(origin="schedule:nightly", limit=20),
    ]


def test_a_list_of_what_people_started_has_no_column_for_schedules(run: Run, ledger: Ledger) -> None:
    ledger.answers[q.ListWorkflows] = q.Workflows(workflows=(v.ENDED,))
    assert "BY" not in run("provision", "list")[1]
