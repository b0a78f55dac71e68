"""The ledger of what keeps the fleet converged: schedules, rules, fires, targets, inventories and the host view."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from exocomp.errors import Conflict, ExocompError, NotFound
from exocomp.model import (
    CatchUp,
    Fire,
    Host,
    Outcome,
    Pin,
    Rule,
    RunOptions,
    RunState,
    Schedule,
    StepState,
    Trust,
    Work,
    Workflow,
    Workspace,
)
from exocomp.protocol import events as e
from exocomp.protocol.converging import HostView
from exocomp.protocol.jobs import Job, PlayJob
from exocomp.protocol.mail import Captured, Report
from exocomp.protocol.queries import HostResult
from exocomp.store import (
    events,
    fires,
    hosts,
    inventories,
    jobs,
    pins,
    rules,
    schedules,
    steps,
    targets,
    workflows,
    workspaces,
)
from exocomp.store.store import Store, open_writer

WORK = Work(
    kind="play", target="dc1", playbook="/srv/site.yml", options=RunOptions(limit="web*", egress=(8080,)), key="k"
)
WEB = Host(name="web1", address="192.0.2.1")
WEB2 = Host(name="web2", address="192.0.2.2")
DB = Host(name="db1", address="192.0.2.3")
numbers = itertools.count(1)


@pytest.fixture
def store(tmp_path: Path):
    clock = itertools.count(1000.0)
    store = open_writer(tmp_path / "exocomp.db", now=lambda: next(clock))
    store.db.pragma("synchronous", "OFF")
    yield store
    store.close()


def schedule(name: str = "conv", **fields: Any) -> Schedule:
    return Schedule(**({"name": name, "cron": "0 0 3 * * *", "zone": "Europe/Berlin", "work": WORK} | fields))


def rule(name: str = "greet", **fields: Any) -> Rule:
    return Rule(**({"name": name, "on": "host.joined", "match": {"host": "web*"}, "work": WORK} | fields))


def happened(store: Store, kind: type) -> list[Any]:
    return [recorded.event for recorded in events.after(store, 0, limit=10_000) if isinstance(recorded.event, kind)]


def take(store: Store, name: str, *named: Host) -> None:
    digest = f"{name} {named}"
    got = Captured(inventory=name, path=f"/x/{name}", digest=digest, hosts=named, outputs=0)
    inventories.take(store, got, f"/x/{name}.json")


def capture(store: Store, workspace: str, *named: Host, verb: str = "apply") -> str:
    """What an apply or a destroy records of a workspace; returns its workflow."""
    id = begin(store, kind=verb, workspace=workspace)
    got = Captured(inventory=f"tf:{workspace}", path="/x/1", digest=f"{verb} {named}", hosts=named, outputs=1)
    with store.transaction("capture") as tx:
        inventories.capture(
            tx, got, verb=verb, workflow=id, workspace=workspace, standing="/x/edge.json", message="captured"
        )
    return id


def begin(store: Store, **fields: Any) -> str:
    values = {"kind": "play", "workspace": None, "playbook": None, "options": RunOptions(), "created_at": 0.0}
    id = f"wf_{next(numbers):04}"
    workflows.begin(store, Workflow(id=id, state=RunState.RUNNING, **(values | fields)), (("play", "configure"),))
    return id


def play(
    store: Store, inventory: str, *results: HostResult, outcome: str = "succeeded", exit_code: int = 0, **spec: Any
) -> str:
    """A play from its beginning to its end, over what stands; returns its workflow."""
    generation = inventories.get(store, inventory)
    workflow = begin(store, inventory=inventory)
    job = release(store, workflow, PlayJob(**({"playbook": "/srv/site.yml", "generation": generation} | spec)))
    end(store, job, *results, outcome=outcome, exit_code=exit_code)
    return workflow


def release(store: Store, workflow: str, spec: PlayJob) -> Job:
    (step,) = steps.of(store, workflow)
    job = Job(
        id=f"job_{next(numbers):04}",
        workflow=workflow,
        step="play",
        spec=spec,
        key=None,
        state="running",
        attempt=1,
        created_at=0.0,
    )
    return steps.release(store, step, job)


def end(store: Store, job: Job, *results: HostResult, outcome: str = "succeeded", exit_code: int = 0) -> None:
    (step,) = steps.of(store, job.workflow)
    report = Report(
        job=job.id, attempt=1, outcome=outcome, exit_code=exit_code, hosts=results, source="d1", reason="because"
    )
    steps.settle(store, step, report, StepState.SUCCEEDED if outcome == "succeeded" else StepState.FAILED)


def ok(host: str, **fields: Any) -> HostResult:
    return HostResult(**({"host": host, "outcome": "ok", "ok": 3} | fields))


def changed(host: str) -> HostResult:
    return ok(host, outcome="changed", changed=1)


def gone(host: str) -> HostResult:
    return HostResult(host=host, outcome="unreachable", unreachable=1)


def failed(host: str) -> HostResult:
    return HostResult(host=host, outcome="failed", failed=1)


def view(store: Store, host: str, inventory: str = "dc1") -> HostView:
    (found,) = [each for each in hosts.every(store, inventory) if each.host.name == host]
    return found


# Schedules


def test_a_schedule_comes_back_as_it_was_given(store: Store) -> None:
    given = schedule(catch_up=CatchUp.ONCE)
    schedules.add(store, given, 5000.0)
    found = schedules.get(store, "conv")
    assert msgspec.structs.replace(found, created_at=0.0, next_at=None, planned_at=0.0) == given
    assert (found.next_at, found.paused) == (5000.0, False)
    assert found.created_at == found.planned_at > 0
    assert schedules.every(store) == (found,)
    (added,) = happened(store, e.ScheduleAdded)
    assert (added.schedule, added.cron, added.zone, added.target) == ("conv", "0 0 3 * * *", "Europe/Berlin", "dc1")


def test_a_schedules_name_is_its_own_and_a_second_one_changes_nothing(store: Store) -> None:
    schedules.add(store, schedule(), 5000.0)
    before, newest = schedules.every(store), events.newest(store)
    with pytest.raises(Conflict, match="schedule 'conv' exists already"):
        schedules.add(store, schedule(cron="0 0 4 * * *"), 6000.0)
    assert (schedules.every(store), events.newest(store)) == (before, newest)
    rules.add(store, rule("conv"))  # rules have names of their own


def test_a_time_is_answered_for_once(store: Store) -> None:
    schedules.add(store, schedule(), 5000.0)
    with store.transaction("test") as tx:
        assert schedules.plan(tx, "conv", 5000.0, 6000.0)
        assert not schedules.plan(tx, "conv", 5000.0, 7000.0)
        assert not schedules.plan(tx, "other", 5000.0, 7000.0)
    assert schedules.get(store, "conv").next_at == 6000.0


def test_a_schedule_whose_times_have_ended_stays_and_answers_nothing_more(store: Store) -> None:
    schedules.add(store, schedule(), 5000.0)
    with store.transaction("test") as tx:
        assert schedules.plan(tx, "conv", 5000.0, None)
    assert schedules.get(store, "conv").next_at is None
    assert not schedules.get(store, "conv").paused


def test_a_paused_schedule_has_no_next_time_and_resumed_it_has_the_one_that_it_is_given(store: Store) -> None:
    schedules.add(store, schedule(), 5000.0)
    schedules.pause(store, "conv")
    assert (schedules.get(store, "conv").next_at, schedules.get(store, "conv").paused) == (None, True)
    with store.transaction("test") as tx:  # a fire that was under way
        assert not schedules.plan(tx, "conv", 5000.0, 6000.0)
        assert not schedules.plan(tx, "conv", None, 6000.0)
    with pytest.raises(Conflict, match="paused already"):
        schedules.pause(store, "conv")
    schedules.resume(store, "conv", 9000.0)
    assert (schedules.get(store, "conv").next_at, schedules.get(store, "conv").paused) == (9000.0, False)
    with pytest.raises(Conflict, match="running already"):
        schedules.resume(store, "conv", 9500.0)
    assert len(happened(store, e.SchedulePaused)) == len(happened(store, e.ScheduleResumed)) == 1


def test_what_is_not_there_is_not_found_and_nothing_is_told_of_it(store: Store) -> None:
    newest = events.newest(store)
    for act in (
        schedules.pause,
        schedules.remove,
        schedules.get,
        rules.enable,
        rules.disable,
        rules.remove,
        rules.get,
    ):
        with pytest.raises(NotFound, match=r"no (schedule|rule) 'x'") as refusal:
            act(store, "x")
        assert "list`" in refusal.value.hint
    with pytest.raises(NotFound):
        schedules.resume(store, "x", 1.0)
    assert events.newest(store) == newest


# Rules


def test_a_rule_comes_back_as_it_was_given_and_answers_what_happens_from_then_on(store: Store) -> None:
    workspaces.add(store, Workspace(name="edge", directory="/m", root="/m"))
    before = events.newest(store)
    rules.add(store, rule())
    found = rules.get(store, "greet")
    assert msgspec.structs.replace(found, created_at=0.0, since=0) == rule()
    assert found.since == before > 0
    assert rules.every(store) == (found,)
    with pytest.raises(Conflict, match="rule 'greet' exists already"):
        rules.add(store, rule(on="host.left"))
    assert rules.every(store) == (found,)


def test_enabled_again_a_rule_lets_pass_what_happened_meanwhile(store: Store) -> None:
    rules.add(store, rule())
    rules.disable(store, "greet")
    assert not rules.get(store, "greet").enabled
    with pytest.raises(Conflict, match="disabled already"):
        rules.disable(store, "greet")
    take(store, "dc1", WEB)
    last = events.newest(store)
    rules.enable(store, "greet")
    assert rules.get(store, "greet").enabled
    assert rules.get(store, "greet").since == last
    with pytest.raises(Conflict, match="enabled already"):
        rules.enable(store, "greet")
    assert rules.get(store, "greet").since == last


def test_how_far_the_rules_have_looked_is_kept(store: Store) -> None:
    assert rules.looked(store) == 0
    rules.look(store, 42)
    assert rules.looked(store) == 42


def test_behind_a_workflow_are_the_rules_that_led_to_it_the_nearest_first(store: Store) -> None:
    """A person's apply -> rule a -> its run -> rule b -> its run."""
    cause = begin(store)
    for name in ("a", "b"):
        events.note(store, "note", e.WorkflowEnded(workflow=cause, state=RunState.SUCCEEDED))
        event = events.newest(store)
        led = begin(store, origin=f"rule:{name}")
        with store.transaction("test") as tx:
            fires.add(tx, fire(source="rule", name=name, event=event, workflow=led))
        cause = led
    by_schedule = begin(store, origin="schedule:conv")
    assert rules.behind(store, cause) == ("b", "a")
    assert rules.behind(store, by_schedule) == ()
    assert rules.behind(store, None) == rules.behind(store, "wf_none") == ()


# Fires


def fire(**fields: Any) -> Fire:
    return Fire(**({"source": "schedule", "name": "conv", "at": 1.0, "outcome": Outcome.STARTED} | fields))


def test_a_fire_comes_back_as_it_was_and_the_newest_is_first(store: Store) -> None:
    given = (
        fire(due_at=0.5, workflow="wf_1"),
        fire(due_at=1.5, outcome=Outcome.REFUSED, reason="names no hosts", hint="apply it"),
        fire(due_at=None, outcome=Outcome.SKIPPED, reason="busy"),
        fire(name="other", outcome=Outcome.MISSED),
        fire(source="rule", event=7, outcome=Outcome.QUEUED, workflow="wf_2"),
    )
    with store.transaction("test") as tx:
        for each in given:
            fires.add(tx, each)
    assert fires.of(store, "schedule", "conv", 10) == tuple(reversed(given[:3]))
    assert fires.of(store, "schedule", "conv", 2) == (given[2], given[1])
    assert fires.of(store, "rule", "conv", 10) == given[4:]
    assert fires.of(store, "schedule", "none", 10) == ()


def test_a_rule_has_one_fire_an_event_and_a_schedule_as_many_as_it_has_times(store: Store) -> None:
    with store.transaction("test") as tx:
        fires.add(tx, fire(source="rule", event=7))
        fires.add(tx, fire(source="rule", event=8))
        fires.add(tx, fire(source="rule", name="other", event=7))
        fires.add(tx, fire(due_at=1.0))
        fires.add(tx, fire(due_at=1.0))
    assert [fires.is_answered(store, "conv", event) for event in (7, 8, 9)] == [True, True, False]
    with pytest.raises(apsw.ConstraintError), store.transaction("test") as tx:
        fires.add(tx, fire(source="rule", event=7, outcome=Outcome.REFUSED))
    assert len(fires.of(store, "rule", "conv", 10)) == 2


def test_a_history_goes_back_so_far_and_takes_nothing_of_its_neighbours(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fires, "KEPT", 5)
    with store.transaction("test") as tx:
        fires.add(tx, fire(name="old", due_at=0.0))
        fires.add(tx, fire(source="rule", event=1))
        for number in range(12):
            fires.add(tx, fire(due_at=float(number)))
    assert [each.due_at for each in fires.of(store, "schedule", "conv", 100)] == [11.0, 10.0, 9.0, 8.0, 7.0]
    assert len(fires.of(store, "schedule", "old", 100)) == len(fires.of(store, "rule", "conv", 100)) == 1


def test_removed_a_schedule_or_a_rule_takes_its_own_history_along(store: Store) -> None:
    schedules.add(store, schedule(), 5000.0)
    rules.add(store, rule("conv"))
    with store.transaction("test") as tx:
        fires.add(tx, fire())
        fires.add(tx, fire(source="rule", event=7))
    schedules.remove(store, "conv")
    assert fires.of(store, "schedule", "conv", 10) == ()
    assert len(fires.of(store, "rule", "conv", 10)) == 1
    rules.remove(store, "conv")
    assert fires.of(store, "rule", "conv", 10) == ()
    assert len(happened(store, e.ScheduleRemoved)) == len(happened(store, e.RuleRemoved)) == 1


# Targets


def test_an_inventory_resolves_to_what_stands_now(store: Store) -> None:
    take(store, "dc1", WEB)
    take(store, "dc1", WEB, WEB2)
    found = targets.resolve(store, "dc1")
    assert (found.number, found.hosts) == (2, (WEB, WEB2))


def test_what_is_no_inventory_yet_says_what_makes_it_one(store: Store) -> None:
    workspaces.add(store, Workspace(name="edge", directory="/m", root="/m"))
    for name, said, hint in (
        ("dc1", "no inventory 'dc1'", "exocomp inventory list"),
        ("tf:dc1", "no inventory 'tf:dc1'", "exocomp inventory list"),
        ("tf:edge", "inventory tf:edge was never materialized", "exocomp workspace apply edge"),
        ("edge", "no inventory 'edge'", "is called tf:edge"),
    ):
        with pytest.raises(NotFound) as refusal:
            targets.resolve(store, name)
        assert refusal.value.what == said
        assert hint in refusal.value.hint


def test_a_hostless_inventory_says_whether_a_file_an_apply_or_a_destroy_left_it_so(store: Store) -> None:
    workspaces.add(store, Workspace(name="edge", directory="/m", root="/m"))
    take(store, "dc1", WEB)
    take(store, "dc1")
    with pytest.raises(ExocompError, match=r"dc1 names no hosts \(generation 2\)$") as refusal:
        targets.resolve(store, "dc1")
    assert "exocomp inventory add dc1 <file>" in refusal.value.hint
    capture(store, "edge")
    with pytest.raises(ExocompError, match=r"tf:edge names no hosts \(generation 1\)$") as refusal:
        targets.resolve(store, "tf:edge")
    assert "`ansible_inventory` output" in refusal.value.hint
    capture(store, "edge", WEB)
    destroy = capture(store, "edge", verb="destroy")
    with pytest.raises(ExocompError, match=f"workspace edge was destroyed by {destroy} at 1970-01-01T") as refusal:
        targets.resolve(store, "tf:edge")
    assert "exocomp workspace apply edge" in refusal.value.hint


def test_only_a_registered_workspace_refreshes_an_inventory(store: Store) -> None:
    workspaces.add(store, Workspace(name="edge", directory="/m", root="/m"))
    found = {name: targets.workspace_of(store, name) for name in ("tf:edge", "edge", "tf:gone", "dc1")}
    assert found == {"tf:edge": "edge", "edge": None, "tf:gone": None, "dc1": None}


# Inventories


def test_hosts_that_join_and_leave_are_told_and_the_same_content_again_is_not(store: Store) -> None:
    for named in ((WEB, DB), (WEB, DB), (WEB2, WEB), (WEB2, WEB)):
        take(store, "dc1", *named)
    told = [(type(r.event).__name__, getattr(r.event, "host", r.event)) for r in events.after(store, 0)]
    assert [(kind, host) for kind, host in told if kind != "InventoryAdded"] == [
        ("HostJoined", "web1"),
        ("HostJoined", "db1"),
        ("HostJoined", "web2"),
        ("HostLeft", "db1"),
    ]
    assert [(each.generation, each.changed, each.hosts) for each in happened(store, e.InventoryAdded)] == [
        (1, True, 2),
        (1, False, 2),
        (2, True, 2),
        (2, False, 2),
    ]


def test_an_inventory_is_removed_unless_something_targets_it_or_a_workspace_refreshes_it(store: Store) -> None:
    workspaces.add(store, Workspace(name="edge", directory="/m", root="/m"))
    take(store, "dc1", WEB)
    capture(store, "edge", WEB)
    for add, noun, remove in (
        (lambda: schedules.add(store, schedule(), 5000.0), "schedule conv", lambda: schedules.remove(store, "conv")),
        (lambda: rules.add(store, rule()), "rule greet", lambda: rules.remove(store, "greet")),
    ):
        add()
        with pytest.raises(Conflict, match=f"dc1 is the target of {noun}"):
            inventories.remove(store, "dc1", force=False)
        assert inventories.get(store, "dc1").hosts == (WEB,)
        remove()
    with pytest.raises(Conflict, match="is refreshed by workspace edge"):
        inventories.remove(store, "tf:edge", force=True)
    schedules.add(store, schedule(), 5000.0)
    inventories.remove(store, "dc1", force=True)
    assert [name for name, _ in inventories.names(store)] == ["tf:edge"]
    assert schedules.get(store, "conv").work.target == "dc1"  # and fails closed from now on
    with pytest.raises(NotFound):
        inventories.remove(store, "dc1", force=True)


def test_a_workspace_is_removed_with_its_inventory_unless_something_targets_either(store: Store) -> None:
    workspaces.add(store, Workspace(name="edge", directory="/m", root="/m"))
    workflows.cancel(store, workflows.get(store, capture(store, "edge", WEB)))
    over = msgspec.structs.replace(WORK, target="tf:edge")
    applying = Work(kind="apply", target="edge")
    for name, work in (("plays", over), ("applies", applying)):
        schedules.add(store, schedule(name, work=work), 5000.0)
        with pytest.raises(Conflict, match=f"edge is the target of schedule {name}"):
            workspaces.remove(store, "edge")
        schedules.remove(store, name)
    rules.add(store, rule(work=applying))
    workspaces.remove(store, "edge", force=True)
    assert inventories.names(store) == []


# Hosts


def test_a_host_that_no_play_reached_yet_is_shown_with_nothing_known_of_it(store: Store) -> None:
    take(store, "dc1", WEB)
    assert hosts.every(store) == (HostView(inventory="dc1", host=WEB),)


def test_a_play_that_succeeds_is_when_and_by_what_its_hosts_converged(store: Store) -> None:
    take(store, "dc1", WEB, WEB2, DB)
    first = play(store, "dc1", ok("web1"), changed("web2"), HostResult(host="db1", outcome="skipped"))
    web, web2, db = (view(store, name) for name in ("web1", "web2", "db1"))
    assert (web.converged_by, web.playbook, web.source, web.changed_at) == (first, "/srv/site.yml", "d1", None)
    assert web.converged_at == web.seen_at == web2.converged_at
    assert web2.changed_at == web2.converged_at
    assert (db.converged_at, db.seen_at) == (None, None)
    second = play(store, "dc1", ok("web1"), ok("web2"), playbook="/srv/other.yml")
    assert (view(store, "web2").converged_by, view(store, "web2").playbook) == (second, "/srv/other.yml")
    assert (view(store, "web2").converged_at or 0) > (web2.converged_at or 0)
    assert view(store, "web2").changed_at == web2.changed_at  # the second changed nothing


def test_a_play_in_check_mode_converges_nobody(store: Store) -> None:
    take(store, "dc1", WEB)
    play(store, "dc1", changed("web1"), check=True)
    assert view(store, "web1") == HostView(inventory="dc1", host=WEB)


def test_onboarding_and_a_change_of_the_fleet_key_are_no_convergence(store: Store) -> None:
    take(store, "dc1", WEB)
    onboard = play(store, "dc1", changed("web1"), onboarding=True)
    found = view(store, "web1")
    assert (found.onboarded_by, found.converged_by, found.playbook) == (onboard, None, None)
    assert found.onboarded_at == found.changed_at == found.seen_at
    play(store, "dc1", changed("web1"), retiring="SHA256:x")
    found = view(store, "web1")
    assert (found.onboarded_by, found.converged_at) == (onboard, None)
    converge = play(store, "dc1", ok("web1"))
    assert (view(store, "web1").onboarded_by, view(store, "web1").converged_by) == (onboard, converge)


def test_a_play_that_failed_converged_nobody_for_it_may_have_stopped_at_the_first_failure(store: Store) -> None:
    take(store, "dc1", WEB, WEB2)
    good = play(store, "dc1", ok("web1"), ok("web2"))
    play(store, "dc1", changed("web1"), failed("web2"), outcome="failed", exit_code=2)
    assert [view(store, name).converged_by for name in ("web1", "web2")] == [good, good]
    assert view(store, "web1").changed_at == view(store, "web1").seen_at
    assert (view(store, "web1").seen_at or 0) > (view(store, "web1").converged_at or 0)


def test_those_that_were_reached_converged_though_others_were_not(store: Store) -> None:
    take(store, "dc1", WEB, WEB2)
    id = play(store, "dc1", ok("web1"), gone("web2"), outcome="failed", exit_code=hosts.UNREACHABLE)
    assert [view(store, name).converged_by for name in ("web1", "web2")] == [id, None]
    # The same exit code with a failed task says nothing of how far the others came.
    play(store, "dc1", failed("web1"), ok("web2"), outcome="failed", exit_code=hosts.UNREACHABLE)
    assert view(store, "web2").converged_by is None


def test_unreachable_is_counted_until_the_host_is_reached_again(store: Store) -> None:
    take(store, "dc1", WEB, WEB2)
    converged = play(store, "dc1", ok("web1"), ok("web2"))
    streak = []
    for results in ((gone("web1"),), (gone("web1"), ok("web2")), (ok("web2"),), (gone("web1"),)):
        play(store, "dc1", *results, outcome="failed", exit_code=hosts.UNREACHABLE)
        streak.append((view(store, "web1").unreachable, view(store, "web2").unreachable))
    assert streak == [(1, 0), (2, 0), (2, 0), (3, 0)]
    found = view(store, "web1")
    assert found.converged_by == converged
    assert (found.seen_at or 0) > (found.converged_at or 0)
    play(store, "dc1", failed("web1"), outcome="failed", exit_code=2)  # reached it, and failed
    assert view(store, "web1").unreachable == 0


def test_what_is_known_of_a_host_goes_when_it_leaves_or_is_dialled_elsewhere(store: Store) -> None:
    take(store, "dc1", WEB, WEB2, DB)
    play(store, "dc1", ok("web1"), ok("web2"), ok("db1"))
    moved = msgspec.structs.replace(WEB2, address="192.0.2.22")
    take(store, "dc1", moved, msgspec.structs.replace(WEB, user="admin"))
    assert view(store, "web1").converged_at is not None  # another user, the same machine
    assert view(store, "web2") == HostView(inventory="dc1", host=moved)
    take(store, "dc1", WEB, moved, DB)
    assert view(store, "db1").converged_at is None  # it came back, and may be another


def test_a_play_that_ends_after_a_host_was_replaced_tells_nothing_of_the_new_machine(store: Store) -> None:
    take(store, "dc1", WEB, WEB2)
    workflow = begin(store, inventory="dc1")
    job = release(store, workflow, PlayJob(playbook="/p.yml", generation=inventories.get(store, "dc1")))
    take(store, "dc1", msgspec.structs.replace(WEB, port=2222), WEB2)
    end(store, job, ok("web1"), ok("web2"))
    assert view(store, "web1").seen_at is None
    assert view(store, "web2").converged_by == workflow


def test_a_play_that_ends_after_its_inventory_was_removed_is_recorded_all_the_same(store: Store) -> None:
    take(store, "dc1", WEB)
    workflow = begin(store, inventory="dc1")
    job = release(store, workflow, PlayJob(playbook="/p.yml", generation=inventories.get(store, "dc1")))
    inventories.remove(store, "dc1", force=True)
    end(store, job, ok("web1"))
    assert workflows.get(store, workflow).state is RunState.SUCCEEDED
    assert [result.host for result in jobs.hosts(store, job.id)] == ["web1"]
    take(store, "dc1", WEB)
    assert view(store, "web1").converged_at is None


def test_what_is_known_is_known_within_one_inventory(store: Store) -> None:
    take(store, "dc1", WEB)
    take(store, "dc2", WEB)
    play(store, "dc1", ok("web1"))
    assert [each.converged_at is None for each in hosts.every(store)] == [False, True]


def test_two_workspaces_that_claim_one_address_are_flagged_on_both_sides(store: Store) -> None:
    for name in ("core", "edge"):
        workspaces.add(store, Workspace(name=name, directory="/m", root="/m"))
    upper = Host(name="gate", address="GATE.example.org")
    capture(store, "core", WEB, upper)
    twin = Host(name="www", address="192.0.2.1")
    elsewhere = Host(name="gate2", address="gate.example.org", port=2222)
    capture(store, "edge", twin, elsewhere)
    take(store, "dc1", msgspec.structs.replace(upper, name="door", address="gate.example.org"))
    shared = {(each.inventory, each.host.name): each.shared_with for each in hosts.every(store)}
    assert shared == {
        ("tf:core", "web1"): ("tf:edge",),
        ("tf:edge", "www"): ("tf:core",),
        ("tf:core", "gate"): ("dc1",),
        ("dc1", "door"): ("tf:core",),
        ("tf:edge", "gate2"): (),  # another port
    }
    # Asked of one inventory, the claims of the others still count; and only current generations claim.
    assert [each.shared_with for each in hosts.every(store, "tf:edge")] == [("tf:core",), ()]
    capture(store, "core", upper)
    assert view(store, "www", "tf:edge").shared_with == ()


def test_hosts_that_are_not_dialled_over_ssh_share_nothing_and_have_no_pins(store: Store) -> None:
    local = Host(name="here", address="192.0.2.1", connection="local")
    take(store, "dc1", local)
    take(store, "dc2", local, WEB)
    pins.pin(store, "192.0.2.1", [a_pin("192.0.2.1")], rotate=False)
    assert [(each.shared_with, len(each.pins)) for each in hosts.every(store)] == [((), 0), ((), 0), ((), 1)]


def a_pin(name: str) -> Pin:
    return Pin(
        name=name, key_type="ssh-ed25519", key="AAAA", trust=Trust.TOFU, pinned_at=0.0, fingerprint=f"SHA256:{name}"
    )


def test_a_host_is_shown_with_the_pins_of_the_name_that_ssh_looks_it_up_by(store: Store) -> None:
    take(
        store,
        "dc1",
        WEB,
        msgspec.structs.replace(WEB, name="alt", port=2222),
        Host(name="six", address="2001:db8::1"),
    )
    for name in ("192.0.2.1", "[192.0.2.1]:2222", "2001:db8::1"):
        pins.pin(store, name, [a_pin(name)], rotate=False)
    assert [[pin.name for pin in each.pins] for each in hosts.every(store)] == [
        ["192.0.2.1"],
        ["[192.0.2.1]:2222"],
        ["2001:db8::1"],
    ]


def test_a_host_is_found_by_name_and_by_address_in_every_inventory(store: Store) -> None:
    gate = Host(name="gate", address="Gate.example.org")
    take(store, "dc1", WEB, gate)
    take(store, "dc2", WEB2, msgspec.structs.replace(WEB, name="www"))
    found = {
        wanted: [(each.inventory, each.host.name) for each in hosts.named(store, wanted)]
        for wanted in ("web1", "192.0.2.1", "gate", "GATE.example.org")
    }
    assert found == {
        "web1": [("dc1", "web1")],
        "192.0.2.1": [("dc1", "web1"), ("dc2", "www")],
        "gate": [("dc1", "gate")],
        "GATE.example.org": [("dc1", "gate")],
    }
    for ask in (lambda: hosts.named(store, "WEB1"), lambda: hosts.every(store, "dc9")):
        with pytest.raises(NotFound):
            ask()
