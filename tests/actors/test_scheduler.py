"""Scheduler and sequencer over a real store in virtual time: what fires when, once, and what does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from exocomp import schedule as cron
from exocomp.actors.base import Mailbox
from exocomp.actors.scheduler import Scheduler
from exocomp.actors.sequencer import Sequencer
from exocomp.errors import Conflict, ExocompError, NotFound
from exocomp.inventory import generations
from exocomp.model import CatchUp, Fire, Host, Outcome, RunState, Schedule, Work, Workspace
from exocomp.protocol import commands as c
from exocomp.protocol import events as e
from exocomp.protocol.mail import Begin, Captured, FireSchedule, Refusal, Report, RunJob, TakeInventory
from exocomp.secrets.sealing import Seal
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.store import events, fires, inventories, schedules, steps, workflows, workspaces
from exocomp.store.store import open_writer

NOON = datetime(2027, 1, 4, 12, tzinfo=UTC).timestamp()  # a Monday
WEB = Host(name="web1", address="192.0.2.1")


class Door:
    """Stands for the files that a play needs: none is looked at; `refused` is what the door says instead."""

    refused: Refusal | None = None

    async def refusal(self, order: c.StartWorkflow) -> Refusal | None:
        return self.refused


class House:
    """A scheduler and a sequencer; the clock is trio's from NOON on, plus what a test sets it by."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.set_by = 0.0
        self.store = open_writer(root / "exocomp.db", now=self.now)
        self.store.db.pragma("synchronous", "OFF")
        self.box: Mailbox[Any] = Mailbox()
        self.runner: Mailbox[Any] = Mailbox(10_000)
        self.scheduling: Mailbox[Any] = Mailbox()
        self.door = Door()
        self.standing = lambda name: root / f"{name.replace(':', '-')}.json"

    def now(self) -> float:
        try:
            return NOON + self.set_by + trio.current_time() - self.began
        except (RuntimeError, AttributeError):
            return NOON + self.set_by

    def inventory(self, name: str, *hosts: Host) -> None:
        content = {"all": {"hosts": {host.name: None for host in hosts}}}
        path, digest = generations.write(content, self.root / "generations")
        got = Captured(inventory=name, path=str(path), digest=digest, hosts=hosts, outputs=0)
        generations.publish(path, self.standing(name))
        inventories.take(self.store, got, str(self.standing(name)))

    async def add(self, name: str = "conv", cron: str = "0 */10 * * * *", **fields: Any) -> tuple[float, ...]:
        work = {"kind": "play", "target": "dc1", "playbook": "/srv/site.yml"} | fields.pop("work", {})
        wanted = Schedule(name=name, cron=cron, work=Work(**work), **fields)
        return (await self.box.ask(c.AddSchedule(schedule=wanted))).fires_at

    def fires(self, name: str = "conv") -> tuple[Fire, ...]:
        """Oldest first."""
        return tuple(reversed(fires.of(self.store, "schedule", name, 1000)))

    def outcomes(self, name: str = "conv") -> list[str]:
        return [fire.outcome.value for fire in self.fires(name)]

    def happened(self, kind: type) -> list[Any]:
        return [r.event for r in events.after(self.store, 0, limit=10_000) if isinstance(r.event, kind)]

    async def finish(self, outcome: str = "succeeded") -> str:
        """The oldest play that was told to run ends; returns its workflow."""
        with trio.fail_after(5):
            mail, _ = await self.runner._receive.receive()
        assert isinstance(mail, RunJob)
        await self.box.ask(Report(job=mail.job.id, attempt=mail.attempt, outcome=outcome))
        return mail.job.workflow

    def told(self) -> int:
        return self.runner._receive.statistics().current_buffer_used

    async def until(self, at: float) -> None:
        await trio.sleep(at - self.now())
        await trio.testing.wait_all_tasks_blocked()


@pytest.fixture
def house(tmp_path: Path):
    house = House(tmp_path)
    house.inventory("dc1", WEB)
    yield house
    house.store.close()


@asynccontextmanager
async def living(house: House) -> AsyncIterator[House]:
    if not hasattr(house, "began"):
        house.began = trio.current_time()
    sequencer = Sequencer(
        house.store,
        mailbox=house.box,
        runners=dict.fromkeys(("tofu", "ansible", "probe", "scan"), house.runner),
        slots=100_000,
        runbooks="/runbooks",
        keys=FleetKeys(house.root / "keys", Seal(bytes(32))),
        standing=house.standing,
        scheduler=house.scheduling,
    )
    scheduler = Scheduler(house.store, house.door, mailbox=house.scheduling, boss=house.box)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(sequencer.run)
        await nursery.start(scheduler.run)
        yield house
        nursery.cancel_scope.cancel()


async def test_it_fires_at_its_times_and_each_fire_starts_a_play_over_the_inventory_by_name(
    house: House, autojump_clock: MockClock
) -> None:
    async with living(house):
        assert await house.add() == (NOON + 600, NOON + 1200, NOON + 1800)
        await house.until(NOON + 599)
        assert house.fires() == ()
        for number in (1, 2):
            await house.until(NOON + 600 * number + 1)
            id = await house.finish()
            workflow = workflows.get(house.store, id)
            assert (workflow.kind, workflow.inventory, workflow.origin) == ("play", "dc1", "schedule:conv")
            assert workflows.generation_of(house.store, id) == 1
    assert [(fire.due_at, fire.outcome) for fire in house.fires()] == [
        (NOON + 600, Outcome.STARTED),
        (NOON + 1200, Outcome.STARTED),
    ]
    assert schedules.get(house.store, "conv").next_at == NOON + 1800


async def test_a_host_that_joins_is_in_the_next_fire_and_the_schedule_stays_as_it_was(
    house: House, autojump_clock: MockClock
) -> None:
    async with living(house):
        await house.add()
        before = schedules.get(house.store, "conv").work
        house.inventory("dc1", WEB, Host(name="web2", address="192.0.2.2"))
        await house.until(NOON + 601)
        mail, _ = await house.runner._receive.receive()
        assert [host.name for host in mail.job.spec.generation.hosts] == ["web1", "web2"]
    assert schedules.get(house.store, "conv").work == before


async def test_one_runs_one_waits_and_the_others_are_skipped_and_say_so(
    house: House, autojump_clock: MockClock
) -> None:
    async with living(house):
        await house.add(cron="* * * * * *")
        await house.until(NOON + 5.5)
        assert house.outcomes() == ["started", "queued", "skipped", "skipped", "skipped"]
        assert house.told() == 1
        first = await house.finish()
        await trio.testing.wait_all_tasks_blocked()
        assert house.told() == 1
        await house.until(NOON + 6.5)
        assert house.outcomes()[-1] == "queued"
        assert await house.finish() != first
    skipped = house.happened(e.ScheduleSkipped)
    assert len(skipped) == 3
    assert "runs and wf_" in skipped[0].reason


async def test_schedules_that_share_a_key_wait_for_each_other(house: House, autojump_clock: MockClock) -> None:
    house.inventory("dc2", WEB)
    async with living(house):
        await house.add("a", work={"key": "fleet"})
        await house.add("b", work={"key": "fleet", "target": "dc2"})
        await house.add("c", work={"key": "fleet"})
        await house.until(NOON + 601)
        assert sorted(house.outcomes("a") + house.outcomes("b") + house.outcomes("c")) == [
            "queued",
            "skipped",
            "started",
        ]
        assert house.told() == 1


async def test_a_failed_run_makes_way_for_the_one_that_waits(house: House, autojump_clock: MockClock) -> None:
    async with living(house):
        await house.add(cron="* * * * * *")
        await house.until(NOON + 2.5)
        failed = await house.finish("failed")
        await trio.testing.wait_all_tasks_blocked()
        assert house.told() == 1
    assert workflows.get(house.store, failed).state is RunState.FAILED


async def test_a_workflow_whose_key_is_held_cannot_be_retried(house: House, autojump_clock: MockClock) -> None:
    async with living(house):
        await house.add(cron="* * * * * *")
        await house.until(NOON + 2.5)
        failed = await house.finish("failed")
        with pytest.raises(Conflict, match="concurrency key"):
            await house.box.ask(c.RetryWorkflow(id=failed))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda house: house.inventory("dc1"), "names no hosts"),
        (lambda house: house.standing("dc1").unlink(), "is lost"),
        (lambda house: house.standing("dc1").write_text("{}"), "is not generation 1 any more"),
        (lambda house: inventories.remove(house.store, "dc1", force=True), "no inventory 'dc1'"),
        (lambda house: setattr(house.door, "refused", Refusal(what="--limit matches no host")), "--limit"),
    ],
    ids=["hostless", "lost", "altered", "unregistered", "limited to nobody"],
)
async def test_a_fire_that_fails_closed_enqueues_nothing_and_says_why_everywhere(
    house: House, autojump_clock: MockClock, spoil: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with living(house):
        await house.add()
        spoil(house)
        await house.until(NOON + 601)
        (fire,) = house.fires()
        assert (fire.outcome, fire.workflow) == (Outcome.REFUSED, None)
        assert said in fire.reason
        assert house.told() == 0
        assert workflows.every(house.store) == ()
        (event,) = house.happened(e.ScheduleRefused)
        assert said in event.reason
        assert said in caplog.text
        # It goes on trying, and runs when what was wrong is mended.
        house.door.refused = None
        house.inventory("dc1", WEB, Host(name="web2", address="192.0.2.2"))
        await house.until(NOON + 1201)
        assert house.told() == 1


async def test_an_inventory_that_was_never_materialized_and_a_destroyed_one_say_so(
    house: House, autojump_clock: MockClock
) -> None:
    workspaces.add(house.store, Workspace(name="edge", directory="/m", root="/m"))
    async with living(house):
        await house.add(work={"target": "tf:edge"})
        await house.until(NOON + 601)
        assert "never materialized" in house.fires()[-1].reason
        await house.box.ask(Begin(order=c.StartWorkflow(kind="destroy", workspace="edge")))
        mail, _ = await house.runner._receive.receive()
        path, digest = generations.write({"all": {"vars": {}}}, house.root / "generations")
        got = Captured(inventory="tf:edge", path=str(path), digest=digest, hosts=(), outputs=0)
        await house.box.ask(Report(job=mail.job.id, attempt=1, outcome="succeeded", captured=got))
        await house.until(NOON + 1201)
    assert f"workspace edge was destroyed by {mail.job.workflow}" in house.fires()[-1].reason
    (captured,) = house.happened(e.OutputsCaptured)
    assert captured.verb == "destroy"


async def test_apply_and_plan_of_a_workspace_can_be_scheduled(house: House, autojump_clock: MockClock) -> None:
    workspaces.add(house.store, Workspace(name="edge", directory="/m", root="/m"))
    async with living(house):
        for kind in ("plan", "apply"):
            await house.add(kind, work={"kind": kind, "target": "edge", "playbook": None})
        await house.until(NOON + 601)
    kinds = {workflow.kind: workflow.workspace for workflow in workflows.every(house.store)}
    assert kinds == {"plan": "edge", "apply": "edge"}


async def test_paused_nothing_fires_and_resumed_nothing_is_caught_up(house: House, autojump_clock: MockClock) -> None:
    async with living(house):
        await house.add(catch_up=CatchUp.ONCE)
        await house.box.ask(c.PauseSchedule(name="conv"))
        await house.until(NOON + 3000)
        assert house.fires() == ()
        await house.box.ask(c.ResumeSchedule(name="conv"))
        await house.until(NOON + 3599)
        assert house.fires() == ()
        await house.until(NOON + 3601)
        assert house.outcomes() == ["started"]
        for wrong in (c.ResumeSchedule(name="conv"), c.PauseSchedule(name="x"), c.RemoveSchedule(name="x")):
            with pytest.raises(Conflict if wrong.name == "conv" else NotFound):
                await house.box.ask(wrong)


async def test_by_hand_it_fires_at_once_and_its_times_stay(house: House, autojump_clock: MockClock) -> None:
    async with living(house):
        await house.add()
        started = await house.box.ask(FireSchedule(name="conv"))
        assert await house.finish() == started.workflow
        assert schedules.get(house.store, "conv").next_at == NOON + 600
        house.inventory("dc1")
        with pytest.raises(ExocompError, match="names no hosts"):
            await house.box.ask(FireSchedule(name="conv"))
    assert house.outcomes() == ["started", "refused"]


async def test_removed_it_fires_no_more_and_its_history_is_gone(house: House, autojump_clock: MockClock) -> None:
    async with living(house):
        await house.add()
        await house.until(NOON + 601)
        await house.box.ask(c.RemoveSchedule(name="conv"))
        await house.until(NOON + 3000)
    assert house.fires() == ()
    assert len(house.happened(e.ScheduleFired)) == 1


@pytest.mark.parametrize(("catch_up", "outcomes"), [(CatchUp.NONE, ["missed"]), (CatchUp.ONCE, ["started"])])
async def test_what_fell_due_while_no_daemon_was_up_is_one_fire_at_most_as_declared(
    house: House, autojump_clock: MockClock, catch_up: CatchUp, outcomes: list[str]
) -> None:
    async with living(house):
        await house.add(catch_up=catch_up)
    house.set_by = 3 * 86400 + 300
    async with living(house):
        await house.until(house.now() + 1)
        assert house.outcomes() == outcomes
        (fire,) = house.fires()
        assert fire.due_at == NOON + 3 * 86400
        assert schedules.get(house.store, "conv").next_at == NOON + 3 * 86400 + 600
        if catch_up is CatchUp.NONE:
            assert "passed" in fire.reason


async def test_a_daemon_that_is_back_within_a_minute_still_fires(house: House, autojump_clock: MockClock) -> None:
    async with living(house):
        await house.add()
    house.set_by = 640
    async with living(house):
        await house.until(house.now() + 1)
    assert [(fire.due_at, fire.outcome) for fire in house.fires()] == [(NOON + 600, Outcome.STARTED)]


async def test_a_clock_that_jumps_ahead_makes_no_burst(house: House, autojump_clock: MockClock) -> None:
    async with living(house):
        await house.add(cron="0 * * * * *", catch_up=CatchUp.ONCE)
        await house.until(NOON + 1)
        house.set_by = 86400 + 30
        await trio.sleep(16)
        await trio.testing.wait_all_tasks_blocked()
        assert house.outcomes() == ["started"]
        assert house.fires()[0].due_at == NOON + 86400


async def test_a_clock_set_far_back_plans_anew_and_one_set_back_a_little_fires_nothing_twice(
    house: House, autojump_clock: MockClock
) -> None:
    house.set_by = 30 * 86400
    async with living(house):
        await house.add(cron="0 * * * * *")
        await house.until(NOON + 30 * 86400 + 61)
        await house.finish()
        house.set_by -= 50
        await trio.sleep(52)  # past the minute that has been answered
        assert house.outcomes() == ["started"]
        house.set_by = 0
        await trio.sleep(16)
        await trio.testing.wait_all_tasks_blocked()
        at = schedules.get(house.store, "conv").next_at
        assert at is not None
        assert 0 < at - house.now() <= 60
        await house.until(at + 1)
        assert house.fires()[1:] == (house.fires()[-1],)
        assert house.fires()[-1].due_at == at


async def test_a_due_time_is_answered_once_also_when_it_is_told_twice(
    house: House, autojump_clock: MockClock
) -> None:
    async with living(house):
        await house.add()
        mail = FireSchedule(name="conv", planned_for=NOON + 600, due_at=NOON + 600, next_at=NOON + 1200)
        assert (await house.box.ask(mail)).outcome is Outcome.STARTED
        assert await house.box.ask(mail) is None
    assert house.outcomes() == ["started"]


async def test_a_week_of_two_thousand_schedules_fires_each_exactly_at_its_times(
    house: House, autojump_clock: MockClock
) -> None:
    """Against times reckoned by hand: schedule n comes at minute n mod 60 of hour n mod 24, all days or one."""
    week = 7 * 86400
    for n in range(2000):
        day = "*" if n % 4 else str(n % 7)
        when = cron.parse(f"{n % 60} {n % 60} {n % 24} * * {day}")
        work = Work(kind="play", target="dc1", playbook="/srv/site.yml", key=f"k{n}")
        first = cron.next_fire(when, NOON)
        assert first is not None
        schedules.add(house.store, Schedule(name=f"s{n}", cron=when.text, work=work), first)

    async def finish_all() -> None:
        async for mail, _ in house.runner:
            await house.box.ask(Report(job=mail.job.id, attempt=mail.attempt, outcome="succeeded"))

    async with living(house), trio.open_nursery() as nursery:
        nursery.start_soon(finish_all)
        await house.until(NOON + week - 0.5)
        nursery.cancel_scope.cancel()
    for n in range(2000):
        wanted = []
        midnight = NOON - 12 * 3600
        for day in range(8):
            at = midnight + day * 86400 + (n % 24) * 3600 + (n % 60) * 60 + n % 60
            weekday = (day + 1) % 7  # it began on a Monday; cron's Sunday is 0
            if NOON < at < NOON + week - 0.5 and (n % 4 or weekday == n % 7):
                wanted.append(at)
        assert [fire.due_at for fire in house.fires(f"s{n}")] == wanted, n
        assert set(house.outcomes(f"s{n}")) <= {"started"}


async def test_a_file_of_the_operators_is_taken_as_a_generation_and_taken_again_it_is_the_next(
    house: House, autojump_clock: MockClock
) -> None:
    async with living(house):
        for hosts, said in (((WEB,), "generation 1 names 1"), ((WEB,), "as before"), ((), "generation 2 names 0")):
            path, digest = generations.write({"all": {"hosts": {h.name: None for h in hosts}}}, house.root / "g")
            got = Captured(inventory="own", path=str(path), digest=digest, hosts=hosts, outputs=0)
            done = await house.box.ask(TakeInventory(captured=got))
            assert said in done.message
    added = house.happened(e.InventoryAdded)
    assert [(event.generation, event.changed) for event in added if event.inventory == "own"] == [
        (1, True),
        (1, False),
        (2, True),
    ]
    assert [step.state for step in steps.ready(house.store)] == []
