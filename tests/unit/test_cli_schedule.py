# ruff: noqa: F811
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cli_converging as s
import cli_views as v
import pytest
from cli_runs import PLAY, Ledger, Run, home, ledger, run  # noqa: F401

from exocomp.cli import converging_views, output
from exocomp.model import CatchUp, Outcome, RunOptions
from exocomp.protocol import commands as c
from exocomp.protocol import converging as g

ADD = ("schedule", "add", "nightly", "--cron", "0 0 3 * * *", "--target", "tf:edge")
TIME = ("--cron", "0 0 3 * * *")
PLANNED = c.Planned(name="nightly", fires_at=(v.AT, v.AT + 86400, v.AT + 172800))


@pytest.fixture
def plans(ledger: Ledger) -> Ledger:
    ledger.replies = {c.AddSchedule: PLANNED, c.ResumeSchedule: PLANNED}
    ledger.answers[g.ShowSchedule] = g.ScheduleView(schedule=s.schedule())
    return ledger


def added(ledger: Ledger) -> Any:
    (said,) = ledger.said
    return said.schedule


def test_what_follows_the_mark_is_the_playbook_and_its_flags(run: Run, plans: Ledger, home: Path) -> None:
    (home / "key").write_text("")
    code, _, err = run(
        *ADD,
        *("--tz", "Europe/Berlin", "--catch-up", "once", "--concurrency-key", "edge", "--egress", "2222"),
        *("--", PLAY, "-CD", "-l", "web*", "--tags", "a,b", "-e", '{"a": 1}', "--egress", "2223"),
        *("--ssh-identity", "key"),
    )
    assert (code, err) == (0, "")
    one = added(plans)
    assert (one.name, one.cron, one.zone, one.catch_up) == ("nightly", "0 0 3 * * *", "Europe/Berlin", CatchUp.ONCE)
    assert (one.work.kind, one.work.target, one.work.key) == ("play", "tf:edge", "edge")
    assert one.work.playbook == str(home / PLAY)
    assert one.work.options == RunOptions(
        limit="web*",
        tags="a,b",
        check=True,
        diff=True,
        extra_vars={"a": 1},
        egress=(2222, 2223),
        ssh_identities=(str(home / "key"),),
    )


def test_flags_before_the_mark_are_the_schedules_and_one_before_the_noun_stays_outside(
    run: Run, plans: Ledger
) -> None:
    code, out, _ = run("--json", *ADD, "--", PLAY, "--check")
    assert code == 0
    assert json.loads(out)["fires_at"][0] == "2023-11-14T22:13:20.000Z"
    assert added(plans).work.options == RunOptions(check=True)


def test_adding_prints_the_next_three_times_with_the_zones_offset(run: Run, plans: Ledger) -> None:
    assert run(*ADD, "--tz", "Asia/Kolkata", "--", PLAY)[1].splitlines() == [
        "nightly fires next at",
        "2023-11-15 03:43:20+05:30",
        "2023-11-16 03:43:20+05:30",
        "2023-11-17 03:43:20+05:30",
    ]


def test_an_apply_is_scheduled_without_a_playbook(run: Run, plans: Ledger) -> None:
    assert run("schedule", "add", "n", *TIME, "--kind", "apply", "--target", "edge")[0] == 0
    assert (added(plans).work.kind, added(plans).work.playbook) == ("apply", None)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([*ADD], "a play needs its playbook after `--`"),
        ([*ADD, "--"], "a play needs its playbook after `--`"),
        ([*ADD, "--", "--check"], "a play needs its playbook after `--`"),
        ([*ADD, PLAY], "stand after `--`"),
        ([*ADD, PLAY, "--check"], "stand after `--`"),
        ([*ADD, "--check", "--", PLAY], "stand after `--`"),
        ([*ADD, "--", PLAY, "--nope"], "--nope"),
        ([*ADD, "--", PLAY, "--json"], "--json"),
        ([*ADD, "--", PLAY, "--ssh-wait", "5m"], "--ssh-wait"),
        ([*ADD, "--", PLAY, "other.yml"], "'other.yml'"),
        ([*ADD, "--", PLAY, "--", "x"], "'x'"),
        ([*ADD, "--", "none.yml"], "none.yml"),
        ([*ADD, "--", PLAY, "--egress", "0"], "--egress 0"),
        ([*ADD, "--egress", "70000", "--", PLAY], "--egress 70000"),
        ([*ADD, "--ssh-identity", ".", "--", PLAY], "directory"),
        ([*ADD, "--concurrency-key", " ", "--", PLAY], "--concurrency-key"),
        (["schedule", "add", "n", *TIME, "--target", " ", "--", PLAY], "target ' '"),
        (["schedule", "add", "n", "--cron", "0 3 * * *", "--target", "e", "--", PLAY], "5 fields"),
        ([*ADD, "--tz", "Mars/Base", "--", PLAY], "'Mars/Base'"),
        ([*ADD, "--catch-up", "all", "--", PLAY], '"all"'),
        ([*ADD, "--kind", "apply", "--", PLAY], "runs no playbook"),
        ([*ADD, "--kind", "plan"], "'tf:edge' is an inventory"),
        (
            ["schedule", "add", "n", *TIME, "--kind", "plan", "--target", "e", "--egress", "22"],
            "--egress is for a play",
        ),
        (["schedule", "add", "", *ADD[3:], "--", PLAY], "NAME requires an argument"),
        (["schedule", "add", "-n", *ADD[3:], "--", PLAY], "-n"),
        (["schedule", "add", "a/b", *ADD[3:], "--", PLAY], "'a/b'"),
        (["schedule", "next", "nightly", "-n", "0"], "--count 0"),
        (["schedule", "history", "nightly", "-n", "0"], "--limit 0"),
        (["schedule", "remove", "nightly"], "--yes"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_with_a_schedule_is_named_and_nothing_is_said_to_the_daemon(
    run: Run, plans: Ledger, argv: list[str], words: str
) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) <= 2
    assert plans.said == []


def test_the_verbs_of_a_schedule_say_their_command(run: Run, plans: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    plans.replies[c.RunSchedule] = c.Started(workflow=v.WF)
    assert run("schedule", "run", "nightly")[1] == f"{v.WF}\n"
    assert run("schedule", "pause", "nightly")[1] == "done\n"
    assert "+05:30" in run("schedule", "resume", "nightly")[1]
    assert run("schedule", "remove", "nightly", "--yes")[0] == 0
    monkeypatch.setattr(output, "confirm", lambda question, *, yes: False)
    assert run("schedule", "remove", "nightly")[0] == 1
    assert [type(said) for said in plans.said] == [
        *(c.RunSchedule, c.PauseSchedule, c.ResumeSchedule, c.RemoveSchedule),
    ]


def test_next_reckons_in_the_zone_of_the_schedule(run: Run, plans: Ledger) -> None:
    lines = run("schedule", "next", "nightly", "-n", "3")[1].splitlines()
    assert [line[10:] for line in lines] == [" 03:00:00+05:30"] * 3
    assert len(json.loads(run("schedule", "next", "nightly", "--json")[1])["fires_at"]) == 5
    plans.answers[g.ShowSchedule] = g.ScheduleView(schedule=s.schedule(paused=True, next_at=None))
    assert "exocomp schedule resume nightly" in run("schedule", "next", "nightly")[2]


def test_the_list_shows_what_comes_what_was_and_why_one_stands_still(run: Run, ledger: Ledger) -> None:
    ledger.answers[g.ListSchedules] = g.Schedules(
        schedules=(
            g.ScheduleView(schedule=s.schedule(), last=s.fire()),
            g.ScheduleView(schedule=s.schedule(name="off", paused=True, next_at=None), fails_closed="also"),
            g.ScheduleView(schedule=s.schedule(name="bad"), fails_closed="no hosts", hint="apply edge"),
        )
    )
    head, good, off, bad, reason, hint = run("schedule", "list")[1].splitlines()
    assert head.split() == ["NAME", "CRON", "ZONE", "TARGET", "NEXT", "LAST", "STATE"]
    assert "2023-11-15 04:43:20+05:30  started 2023-11-15 03:43:21+05:30  active" in good
    assert off.endswith("paused")
    assert bad.endswith("fails closed")
    assert [reason, hint] == ["    no hosts", "    hint: apply edge"]
    assert json.loads(run("schedule", "list", "--json")[1])["schedules"][2]["fails_closed"] == "no hosts"


def test_in_colour_what_fails_closed_is_red_and_what_is_paused_dim() -> None:
    views = (
        g.ScheduleView(schedule=s.schedule(name="off", paused=True)),
        g.ScheduleView(schedule=s.schedule(name="bad"), fails_closed="no\x1bhosts"),
    )
    _, off, bad, reason = converging_views.schedule_rows(views, width=100, color=True).splitlines()
    assert off.startswith("\x1b[2moff")
    assert bad.startswith("\x1b[31mbad")
    assert reason == "    \x1b[31mno\\x1bhosts\x1b[0m"


def test_show_tells_what_it_starts_and_never_the_value_of_a_variable(run: Run, ledger: Ledger) -> None:
    options = RunOptions(limit="web*", check=True, extra_vars={"token": "hunter2"}, egress=(2222,))
    work = s.WORK.__class__(kind="play", target="tf:edge", playbook="/srv/x.yml", options=options)
    refused = s.fire(Outcome.REFUSED, reason="no hosts")
    ledger.answers[g.ShowSchedule] = g.ScheduleView(
        schedule=s.schedule(work=work), last=refused, fails_closed="no hosts", hint="apply edge"
    )
    out = run("schedule", "show", "nightly")[1]
    assert "flags      --limit 'web*' --check --extra-vars (token) --egress 2222" in out
    assert "refused 2023-11-15 03:43:21+05:30" in out
    assert out.endswith("\n\nno hosts\nhint: apply edge\n")
    assert "hunter2" not in out


def test_history_is_a_row_a_fire(run: Run, plans: Ledger) -> None:
    plans.answers[g.ListFires] = g.Fires(
        fires=(s.fire(due_at=None), s.fire(), s.fire(Outcome.REFUSED, reason="no hosts"))
    )
    head, by_hand, good, bad = run("schedule", "history", "nightly", "--limit", "7")[1].splitlines()
    assert head.split() == ["DUE", "AT", "OUTCOME", "WORKFLOW", "REASON"]
    assert by_hand.startswith("by hand")
    assert good.split()[-2:] == ["started", v.WF]
    assert "2023-11-15 03:43:20+05:30" in bad
    assert bad.split()[-3:] == ["refused", "no", "hosts"]
    assert plans.asked[-1] == g.ListFires(source="schedule", name="nightly", limit=7)


def test_a_zone_that_this_machine_lacks_is_shown_in_local_time() -> None:
    view = g.ScheduleView(schedule=s.schedule(zone="Mars/Base"))
    assert "Mars/Base" in converging_views.schedule(view, color=False)
