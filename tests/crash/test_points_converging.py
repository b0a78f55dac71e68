"""kill -9 at every point of inventories, schedules and rules, then a restart: one fire, one play, nothing by halves.

Plays run over a host with ansible_connection=local. Nothing waits for a clock: a time falls due, or a clock was set
back, by what is written into the ledger while no daemon is up.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from exocomp.model import Fire, Outcome, RunState, Schedule
from exocomp.protocol import events as e
from exocomp.protocol.converging import Fires, ListFires, ScheduleView, ShowSchedule
from exocomp.protocol.event import Event
from exocomp.protocol.queries import ListWorkflows, Workflows
from exocomp.store import answer
from exocomp.store.store import open_writer
from tests.lab.history import faults, successes
from tests.lab.home import Home

MODULE = """
output "ansible_inventory" {
  value = { all = { hosts = { here = { ansible_connection = "local" } } } }
}
"""
HOSTS = "all: {hosts: {here: {ansible_connection: local}}}\n"
MORE_HOSTS = "all: {hosts: {here: {ansible_connection: local}, there: {ansible_connection: local}}}\n"
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.shell: echo ran >>~/plays
"""

PATIENT = PLAY.replace("echo", "until [ -e ~/go ]; do sleep 0.1; done; echo")

INVENTORY = ("inventory", "add", "dc1", "hosts.yml")
TRIGGER = ("inventory", "add", "dc2", "hosts.yml")
YEARLY = ("schedule", "add", "conv", "--cron", "0 0 0 1 1 *", "--target", "dc1")
SCHEDULE = (*YEARLY, "--catch-up", "once", "--", "play.yml")
RULE = ("playbook", "rule", "add", "conv", "--on", "inventory.added", "--match", "inventory=dc2")
RULE = (*RULE, "--inventory", "dc1", "--", "play.yml")


class Order(NamedTuple):
    """What a person orders after `first`; `event` tells that it was recorded, `again` is the exit when it was."""

    first: tuple[tuple[str, ...], ...]
    words: tuple[str, ...]
    event: type[Event]
    again: int


ORDERS = {
    "add_schedule": Order((INVENTORY,), SCHEDULE, e.ScheduleAdded, 6),
    "pause_schedule": Order((INVENTORY, SCHEDULE), ("schedule", "pause", "conv"), e.SchedulePaused, 6),
    "resume_schedule": Order(
        (INVENTORY, SCHEDULE, ("schedule", "pause", "conv")), ("schedule", "resume", "conv"), e.ScheduleResumed, 6
    ),
    "remove_schedule": Order((INVENTORY, SCHEDULE), ("schedule", "remove", "conv", "--yes"), e.ScheduleRemoved, 5),
    "add_rule": Order((INVENTORY,), RULE, e.RuleAdded, 6),
    "disable_rule": Order((INVENTORY, RULE), ("playbook", "rule", "disable", "conv"), e.RuleDisabled, 6),
    "enable_rule": Order(
        (INVENTORY, RULE, ("playbook", "rule", "disable", "conv")),
        ("playbook", "rule", "enable", "conv"),
        e.RuleEnabled,
        6,
    ),
    "remove_rule": Order((INVENTORY, RULE), ("playbook", "rule", "remove", "conv", "--yes"), e.RuleRemoved, 5),
    "remove_inventory": Order((INVENTORY,), ("inventory", "remove", "dc1", "--yes"), e.InventoryRemoved, 5),
}


def both(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}:{side}" for name in names for side in ("before", "after"))


RUN = (*both("release.play", "settle.play.succeeded"), "prepared.play", "started.play", "exited.play")
QUEUE = both("queue.play")
POINTS = {*both(*ORDERS, "add_inventory", "fire_schedule", "fire_rule", "look", "replan_schedule"), *QUEUE, *RUN}
CONVERGING = re.compile(r"schedule|rule|inventory|look|\.play")


@pytest.fixture
def home() -> Iterator[Home]:
    home = Home()
    for name, text in (("hosts.yml", HOSTS), ("more.yml", MORE_HOSTS), ("play.yml", PLAY), ("patient.yml", PATIENT)):
        (home.work / name).write_text(text)
    yield home
    home.close()


def order(home: Home, *orders: tuple[str, ...]) -> None:
    for words in orders:
        home.run(*words)


def die(home: Home, point: str, *words: str) -> None:
    """A daemon starts, is given an order unless it dies of itself, and is dead."""
    home.serve(crash_at=point, expect_death=True)
    if words:
        home.run(*words, exit=None)
    assert home.wait_for_death() == -signal.SIGKILL


def until(home: Home, condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}\n{home.told()}"
        time.sleep(0.02)


def fires(home: Home, source: str) -> tuple[Fire, ...]:
    """Oldest first."""
    found = answer.ask(home.data, ListFires(source=source, name="conv"))
    assert isinstance(found, Fires)
    return tuple(reversed(found.fires))


def planned(home: Home) -> Schedule:
    found = answer.ask(home.data, ShowSchedule(name="conv"))
    assert isinstance(found, ScheduleView)
    return found.schedule


def rewrite(home: Home, **columns: float) -> None:
    """The ledger as it is when nobody was up at the schedule's time, or the clock was wrong when it was planned."""
    store = open_writer(home.data / "exocomp.db")
    with store.transaction("rewrite") as tx:
        tx.run(f"UPDATE schedule SET {', '.join(f'{name} = ?' for name in columns)}", *columns.values())
    store.close()


def new_year(ahead: int = 0) -> float:
    """The first second of this year, or of a later one, as the schedule has it."""
    return datetime(datetime.now(UTC).year + ahead, 1, 1, tzinfo=UTC).timestamp()


def plays(home: Home) -> int:
    """Runs that left their line; all that a play can write is its attempt's."""
    return sum(len(file.read_text().splitlines()) for file in home.data.glob("jobs/*/*/home/plays"))


def ran_once(home: Home, origin: str, inventory: str = "dc1", hosts: int = 1) -> None:
    """One play ran, to its end and once on each of its `hosts`, and it is what `origin` started."""
    home.wait_for(lambda event: isinstance(event, e.WorkflowEnded) and event.workflow in started(home), "the end")
    found = answer.ask(home.data, ListWorkflows())
    assert isinstance(found, Workflows)
    ran = [each.workflow for each in found.workflows if each.workflow.kind == "play"]
    assert [(each.origin, each.inventory, each.state) for each in ran] == [(origin, inventory, "succeeded")], (
        home.told()
    )
    events = home.events()
    assert faults(events) == [], home.told()
    assert successes(events, "play") == 1
    assert plays(home) == hosts, home.told()
    home.wait_until_quiet()


def started(home: Home) -> list[str | None]:
    """Workflows of plays."""
    return [event.workflow for event in home.of(e.WorkflowStarted) if event.kind == "play"]


def test_the_points_are_those_that_a_life_of_inventories_schedules_and_rules_passes(home: Home) -> None:
    home.serve()
    order(home, INVENTORY, SCHEDULE, ("schedule", "pause", "conv"), ("schedule", "resume", "conv"))
    order(home, RULE, ("playbook", "rule", "disable", "conv"), ("playbook", "rule", "enable", "conv"), TRIGGER)
    until(home, lambda: len(fires(home, "rule")) == 1, "an answer of the rule")
    home.run("schedule", "run", "conv")
    until(home, lambda: len(home.of(e.WorkflowEnded)) == 2, "the end of two plays")
    home.kill()
    rewrite(home, planned_at=time.time() + 86400)
    home.serve()
    until(home, lambda: planned(home).planned_at < time.time(), "a new plan")
    order(home, *(ORDERS[name].words for name in ("remove_schedule", "remove_rule", "remove_inventory")))
    passed = home.trace.read_text().splitlines()
    # The second play is queued only if the first still runs.
    assert {point for point in passed if CONVERGING.search(point)} | {*QUEUE} == POINTS


@pytest.mark.parametrize("point", both(*ORDERS))
def test_an_order_is_recorded_whole_or_not_at_all(home: Home, point: str) -> None:
    given = ORDERS[point.partition(":")[0]]
    home.serve(crash_at=point)
    order(home, *given.first)
    assert home.run(*given.words, exit=None).returncode != 0
    assert home.wait_for_death() == -signal.SIGKILL
    home.serve()
    home.run(*given.words, exit=0 if point.endswith(":before") else given.again)
    assert len(home.of(given.event)) == 1, home.told()
    home.run(*given.words, exit=given.again)


@pytest.mark.parametrize("point", both("add_inventory"))
def test_an_inventory_that_was_being_taken_is_the_old_one_or_the_new_one_and_no_play_runs_over_a_mixture(
    home: Home, point: str
) -> None:
    home.serve()
    order(home, INVENTORY)
    home.kill()
    die(home, point, "inventory", "add", "dc1", "more.yml")
    home.serve()
    taken = point.endswith(":after")
    shown = home.json("inventory", "show", "dc1")
    assert (shown["current"]["number"], len(shown["current"]["hosts"])) == ((2, 2) if taken else (1, 1))
    assert shown["sound"] is taken
    if not taken:
        refusal = home.run("playbook", "run", "play.yml", "--inventory", "dc1", exit=6)
        assert "is not generation 1 any more" in refusal.stderr
        assert "exocomp inventory add dc1" in refusal.stderr
        assert started(home) == []
    order(home, ("inventory", "add", "dc1", "more.yml"))
    shown = home.json("inventory", "show", "dc1")
    assert (shown["current"]["number"], len(shown["current"]["hosts"]), shown["sound"]) == (2, 2, True)
    assert [event.host for event in home.of(e.HostJoined)] == ["here", "there"]
    home.run("playbook", "run", "play.yml", "--inventory", "dc1", "--wait")
    ran_once(home, "", hosts=2)


@pytest.mark.parametrize("point", both("add_inventory"))
def test_a_new_inventory_that_was_being_taken_is_there_whole_or_not_at_all(home: Home, point: str) -> None:
    die(home, point, *INVENTORY)
    home.serve()
    taken = point.endswith(":after")
    assert [each["name"] for each in home.json("inventory", "list")["inventories"]] == ["dc1"] * taken
    assert len(home.of(e.HostJoined)) == taken
    home.run("schedule", *SCHEDULE[1:], exit=0 if taken else 5)
    order(home, INVENTORY)
    shown = home.json("inventory", "show", "dc1")
    assert (shown["current"]["number"], shown["sound"]) == (1, True)
    assert len(home.of(e.HostJoined)) == 1


@pytest.mark.parametrize("point", [*both("add_inventory", "fire_rule", "look"), *RUN])
def test_a_rule_answers_an_event_with_one_play(home: Home, point: str) -> None:
    home.serve()
    order(home, INVENTORY, RULE)
    home.kill()
    die(home, point, *TRIGGER)
    home.serve()
    if point == "add_inventory:before":  # nothing had happened that could be answered
        order(home, TRIGGER)
    until(home, lambda: len(fires(home, "rule")) == 1, "an answer of the rule")
    ran_once(home, "rule:conv")
    # What comes next is answered next: nothing before it is still to be answered, or is answered again.
    order(home, TRIGGER)
    until(home, lambda: len(fires(home, "rule")) == 2, "an answer to the next event")
    happened = [each.seq for each in home.events() if isinstance(each.event, e.InventoryAdded)]
    assert [fire.event for fire in fires(home, "rule")] == happened[-2:]
    assert [event.event for event in home.of(e.RuleFired)] == happened[-2:]


@pytest.mark.parametrize("point", both("settle.apply.succeeded"))
def test_a_rule_converges_once_after_an_apply(home: Home, point: str) -> None:
    (home.work / "module").mkdir()
    (home.work / "module" / "main.tf").write_text(MODULE)
    home.serve(crash_at=point)
    order(home, ("workspace", "add", "edge", "module"))
    rule = ("playbook", "rule", "add", "conv", "--on", "workspace.applied", "--inventory", "tf:edge")
    order(home, (*rule, "--", "play.yml"))
    home.run("workspace", "apply", "edge", exit=None)
    assert home.wait_for_death() == -signal.SIGKILL
    home.serve()
    until(home, lambda: len(fires(home, "rule")) == 1, "an answer of the rule")
    ran_once(home, "rule:conv", "tf:edge")
    assert len(home.of(e.OutputsCaptured)) == len(home.of(e.RuleFired)) == 1
    assert successes(home.events(), "apply") == 1


@pytest.mark.parametrize("point", both("fire_schedule", "release.play"))
def test_a_time_that_fell_due_starts_one_play(home: Home, point: str) -> None:
    home.serve()
    order(home, INVENTORY, SCHEDULE)
    home.kill()
    rewrite(home, next_at=new_year())
    die(home, point)
    home.serve()
    until(home, lambda: len(fires(home, "schedule")) == 1, "a fire")
    ran_once(home, "schedule:conv")
    (fire,) = fires(home, "schedule")
    assert (fire.outcome, fire.due_at, fire.workflow) == (Outcome.STARTED, new_year(), *started(home))
    assert planned(home).next_at == new_year(1)
    assert len(home.of(e.ScheduleFired)) == 1


@pytest.mark.parametrize("point", both("fire_schedule"))
def test_a_time_that_was_missed_is_one_line_of_history(home: Home, point: str) -> None:
    home.serve()
    order(home, INVENTORY, (*YEARLY, "--", "play.yml"))
    home.kill()
    rewrite(home, next_at=new_year(-1))
    die(home, point)
    home.serve()
    until(home, lambda: planned(home).next_at == new_year(1), "the next plan")
    assert [fire.outcome for fire in fires(home, "schedule")] == [Outcome.MISSED]
    assert len(home.of(e.ScheduleSkipped)) == 1
    assert started(home) == []


@pytest.mark.parametrize("point", both("fire_schedule"))
def test_a_schedule_that_is_run_by_hand_starts_what_it_recorded(home: Home, point: str) -> None:
    home.serve(crash_at=point)
    order(home, INVENTORY, SCHEDULE)
    assert home.run("schedule", "run", "conv", exit=None).returncode != 0
    assert home.wait_for_death() == -signal.SIGKILL
    home.serve()
    if point.endswith(":before"):
        assert fires(home, "schedule") == ()
        home.run("schedule", "run", "conv")
    ran_once(home, "schedule:conv")
    assert [(fire.outcome, fire.due_at) for fire in fires(home, "schedule")] == [(Outcome.STARTED, None)]
    assert planned(home).next_at == new_year(1)


@pytest.mark.parametrize("point", both("replan_schedule"))
def test_a_plan_of_a_clock_that_was_wrong_is_made_anew_and_fires_nothing(home: Home, point: str) -> None:
    home.serve()
    order(home, INVENTORY, SCHEDULE)
    home.kill()
    rewrite(home, planned_at=time.time() + 86400, next_at=new_year(30))
    die(home, point)
    home.serve()
    until(home, lambda: planned(home).next_at == new_year(1), "a new plan")
    assert planned(home).planned_at <= time.time()
    home.kill()
    home.serve()
    assert planned(home).next_at == new_year(1)
    assert fires(home, "schedule") == ()
    assert started(home) == []


@pytest.mark.parametrize("point", QUEUE)
def test_of_two_fires_of_one_key_the_second_play_runs_after_the_first(home: Home, point: str) -> None:
    home.serve(crash_at=point)
    order(home, INVENTORY, (*YEARLY, "--", "patient.yml"), ("schedule", "run", "conv"))
    home.wait_for_step("play", "running")
    assert home.run("schedule", "run", "conv", exit=None).returncode != 0
    assert home.wait_for_death() == -signal.SIGKILL
    home.serve()
    assert [fire.outcome for fire in fires(home, "schedule")] == [Outcome.STARTED, Outcome.QUEUED]
    for done in (1, 2):
        until(home, lambda done=done: len(homes(home)) == done, f"play {done}")
        assert len([event for event in home.of(e.StepMoved) if event.new == "running"]) == done
        (homes(home)[-1] / "go").touch()
        until(home, lambda done=done: len(home.of(e.WorkflowEnded)) == done, f"the end of play {done}")
    assert [event.workflow for event in home.of(e.WorkflowEnded)] == started(home)
    assert {event.state for event in home.of(e.WorkflowEnded)} == {RunState.SUCCEEDED}
    assert faults(home.events()) == [], home.told()
    assert plays(home) == 2
    home.wait_until_quiet()


def homes(home: Home) -> list[Path]:
    """Home directories of the attempts, oldest first."""
    return sorted(home.data.glob("jobs/*/*/home"), key=lambda each: each.stat().st_ctime)
