"""Reactor and sequencer over a real store and the real door: what a rule answers, once, and what it refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from exocomp import crash, triggers
from exocomp.actors.base import Mailbox
from exocomp.actors.intake import Intake
from exocomp.actors.reactor import REMEMBER, Reactor
from exocomp.actors.sequencer import Sequencer
from exocomp.actors.tail import Tail
from exocomp.config import Layout, Settings
from exocomp.errors import Conflict, ExocompError, NotFound
from exocomp.inventory import generations
from exocomp.model import Fire, Host, Outcome, Rule, RunOptions, Schedule, Trust, Work, Workspace
from exocomp.protocol import commands as c
from exocomp.protocol import events as e
from exocomp.protocol.event import Event
from exocomp.protocol.mail import Begin, Captured, FireRule, FireSchedule, Report, RunJob, TakeInventory
from exocomp.secrets.sealing import Seal
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.store import events, fires, inventories, rules, workflows, workspaces
from exocomp.store.store import open_writer

WEB = Host(name="web1", address="192.0.2.1")
WEB2 = Host(name="web2", address="192.0.2.2")


class Killed(BaseException):
    """Stands for kill -9: the transaction that was open is gone, and nothing after it happens."""


class House:
    """What the daemon makes of a data dir, without what runs jobs: those are told to `runner`."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root)
        self.playbook = root / "site.yml"
        self.playbook.write_text("- hosts: all\n")
        self.keys = FleetKeys(self.layout.keys, Seal(bytes(32)))
        self.open()

    def open(self) -> None:
        """As a daemon that starts: nothing is kept but what the ledger holds."""
        self.store = open_writer(self.layout.store)
        self.store.db.pragma("synchronous", "OFF")
        self.tail = Tail(self.store, self.layout)
        self.store.rang = self.tail.ring
        self.box: Mailbox[Any] = Mailbox()
        self.runner: Mailbox[Any] = Mailbox(10_000)
        self._waiting: list[RunJob] = []

    def standing(self, name: str) -> Path:
        return generations.standing_path(self.layout, name)

    def captured(self, name: str, *hosts: Host) -> Captured:
        content = {"all": {"hosts": {host.name: {"ansible_host": host.address} for host in hosts}}}
        path, digest = generations.write(content, generations.generations_path(self.layout, name))
        return Captured(inventory=name, path=str(path), digest=digest, hosts=hosts, outputs=1)

    async def inventory(self, name: str, *hosts: Host) -> None:
        await self.box.ask(TakeInventory(captured=self.captured(name, *hosts)))

    async def add(self, name: str, on: str, match: dict[str, str] | None = None, **work: Any) -> None:
        fields = {"kind": "play", "target": "dc1", "playbook": str(self.playbook)} | work
        if "limit" in fields:
            fields["options"] = RunOptions(limit=fields.pop("limit"))
        await self.box.ask(c.AddRule(rule=Rule(name=name, on=on, match=match or {}, work=Work(**fields))))

    async def apply(self, workspace: str, *hosts: Host) -> str:
        """An apply from its order to its capture; returns its workflow."""
        begun = await self.box.ask(Begin(order=c.StartWorkflow(kind="apply", workspace=workspace)))
        return await self.finish(of=begun.workflow, captured=self.captured(f"tf:{workspace}", *hosts))

    async def finish(self, outcome: str = "succeeded", *, of: str | None = None, **fields: Any) -> str:
        """The oldest job that was told to run ends, or that of a workflow; returns its workflow."""
        with trio.fail_after(5):
            while not (found := [mail for mail in self._waiting if of in (None, mail.job.workflow)]):
                mail, _ = await self.runner._receive.receive()
                assert isinstance(mail, RunJob)
                self._waiting.append(mail)
        self._waiting.remove(found[0])
        job = found[0].job
        await self.box.ask(Report(job=job.id, attempt=found[0].attempt, outcome=outcome, **fields))
        return job.workflow

    def told(self) -> int:
        """How many jobs were told to run and have not ended."""
        return len(self._waiting) + self.runner._receive.statistics().current_buffer_used

    def fires(self, name: str) -> tuple[Fire, ...]:
        """Oldest first."""
        return tuple(reversed(fires.of(self.store, "rule", name, 1000)))

    def outcomes(self, name: str) -> list[str]:
        return [fire.outcome.value for fire in self.fires(name)]

    def of_rule(self, name: str) -> list[str]:
        """Workflows that a rule started."""
        return [each.id for each in workflows.every(self.store) if each.origin == f"rule:{name}"]

    def happened(self, kind: type) -> list[e.Recorded]:
        return [r for r in events.after(self.store, 0, limit=10_000) if isinstance(r.event, kind)]

    async def looked(self) -> None:
        """Until the reactor has answered what happened so far."""
        await trio.testing.wait_all_tasks_blocked()


@pytest.fixture
def house(tmp_path: Path):
    house = House(tmp_path)
    yield house
    house.store.close()


@asynccontextmanager
async def living(house: House, *, reacting: bool = True) -> AsyncIterator[House]:
    intake = Intake(house.store, house.layout, Settings(), house.keys)
    sequencer = Sequencer(
        house.store,
        mailbox=house.box,
        runners=dict.fromkeys(("tofu", "ansible", "probe", "scan"), house.runner),
        slots=1000,
        runbooks="/runbooks",
        keys=house.keys,
        standing=house.standing,
    )
    reactor = Reactor(house.store, house.tail, intake, boss=house.box)
    async with trio.open_nursery() as nursery:
        await nursery.start(sequencer.run)
        if reacting:
            await nursery.start(reactor.run)
        yield house
        nursery.cancel_scope.cancel()


def captured_event() -> e.OutputsCaptured:
    return e.OutputsCaptured(
        workspace="edge", inventory="tf:edge", generation=1, path="/x", outputs=1, hosts=1, message="captured"
    )


def edge(house: House, *names: str) -> None:
    for name in names or ("edge",):
        workspaces.add(house.store, Workspace(name=name, directory="/m", root="/m"))


async def test_a_rule_fires_once_for_each_event_that_fits_and_its_play_is_over_the_inventory_by_name(
    house: House,
) -> None:
    edge(house)
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("conv", "workspace.applied")
        for hosts in ((WEB,), (WEB,), (WEB, WEB2)):
            await house.apply("edge", *hosts)
            await house.looked()
            await house.finish()
    assert house.outcomes("conv") == ["started"] * 3
    applied = [recorded.seq for recorded in house.happened(e.OutputsCaptured)]
    assert [fire.event for fire in house.fires("conv")] == applied
    plays = [workflows.get(house.store, fire.workflow or "") for fire in house.fires("conv")]
    assert {(each.kind, each.inventory, each.origin) for each in plays} == {("play", "dc1", "rule:conv")}
    fired = [recorded.event for recorded in house.happened(e.RuleFired)]
    assert [(each.rule, each.event, each.workflow) for each in fired] == [
        ("conv", seq, play.id) for seq, play in zip(applied, plays, strict=True)
    ]


async def test_each_of_several_rules_answers_the_same_event(house: House) -> None:
    edge(house, "edge", "dns")
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("greet", "host.joined")
        await house.add("dns", "host.joined", kind="apply", target="dns", playbook=None)
        await house.inventory("dc1", WEB, WEB2)
        await house.looked()
        assert house.told() == 2
    kinds = {each.origin: (each.kind, each.workspace) for each in workflows.every(house.store)}
    assert kinds == {"rule:greet": ("play", None), "rule:dns": ("apply", "dns")}
    assert house.fires("greet")[0].event == house.fires("dns")[0].event


async def test_only_events_whose_fields_fit_every_pattern_are_answered(house: House) -> None:
    edge(house, "edge", "edge2", "core")
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("conv", "workspace.applied", {"workspace": "edge*", "changed": "true"})
        await house.apply("core", WEB)
        await house.apply("edge", WEB)
        await house.apply("edge", WEB)  # changes nothing
        await house.apply("edge2", WEB)
        await house.looked()
    answered = [fire.event for fire in house.fires("conv")]
    captured = house.happened(e.OutputsCaptured)
    assert [r.event.workspace for r in captured if r.seq in answered] == ["edge", "edge2"]
    assert len(answered) == 2


async def test_a_rule_on_failed_jobs_answers_the_failure_and_no_success(house: House) -> None:
    edge(house)
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("alarm", "job.failed", {"workspace": "edge"})
        await house.apply("edge", WEB)
        await house.box.ask(Begin(order=c.StartWorkflow(kind="apply", workspace="edge")))
        await house.finish("failed", reason="no quota")
        await house.looked()
    (fire,) = house.fires("alarm")
    (event,) = [r.event for r in house.happened(e.StepMoved) if r.seq == fire.event]
    assert (event.new, event.reason) == ("failed", "no quota")


async def test_a_schedule_that_was_refused_can_start_the_apply_that_mends_it(house: House) -> None:
    edge(house)
    async with living(house):
        await house.add("mend", "schedule.refused", {"target": "tf:edge"}, kind="apply", target="edge", playbook=None)
        work = Work(kind="play", target="tf:edge", playbook=str(house.playbook))
        await house.box.ask(c.AddSchedule(schedule=Schedule(name="conv", cron="0 0 3 * * *", work=work)))
        with pytest.raises(ExocompError, match="never materialized"):
            await house.box.ask(FireSchedule(name="conv"))
        await house.looked()
        await house.finish(captured=house.captured("tf:edge", WEB))
        await house.box.ask(FireSchedule(name="conv"))
        assert house.told() == 1
    assert house.outcomes("mend") == ["started"]


# Loops


async def test_a_rule_does_not_answer_what_it_caused_itself(house: House) -> None:
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("again", "workflow.succeeded")
        await house.box.ask(Begin(order=c.StartWorkflow(kind="play", inventory="dc1", playbook=str(house.playbook))))
        await house.finish()
        await house.looked()
        await house.finish()
        await house.looked()
        assert house.told() == 0
    assert house.outcomes("again") == ["started", "skipped"]
    assert len(house.of_rule("again")) == 1
    (skipped,) = [recorded.event for recorded in house.happened(e.RuleSkipped)]
    assert skipped.rule == "again"
    assert "by this rule itself" in skipped.reason


async def test_two_rules_that_answer_each_other_stop_after_one_round(house: House) -> None:
    edge(house, "a", "b", "s")
    async with living(house):
        for name, other in (("a", "b"), ("b", "a")):
            match = {"workspace": f"[s{other}]"}
            await house.add(name, "workspace.applied", match, kind="apply", target=name, playbook=None)
        await house.apply("s", WEB)  # both answer it
        await house.looked()
        for _ in range(4):
            with trio.fail_after(5):
                mail, _ = await house.runner._receive.receive()
            got = house.captured(f"tf:{workflows.get(house.store, mail.job.workflow).workspace}", WEB)
            await house.box.ask(Report(job=mail.job.id, attempt=1, outcome="succeeded", captured=got))
            await house.looked()
        assert house.told() == 0
    # s -> a -> b, which a does not answer, and s -> b -> a, which b does not answer.
    for name, other in (("a", "b"), ("b", "a")):
        assert sorted(house.outcomes(name)) == ["skipped", "started", "started"]
        behind = sorted(rules.behind(house.store, id) for id in house.of_rule(name))
        assert behind == [(name,), (name, other)]


async def test_a_rule_answers_again_what_others_cause_after_its_own_loop_was_stopped(house: House) -> None:
    edge(house)
    async with living(house):
        await house.add("re", "workspace.applied", kind="apply", target="edge", playbook=None)
        for _ in range(2):
            await house.apply("edge", WEB)
            await house.looked()
            await house.finish(captured=house.captured("tf:edge", WEB))
            await house.looked()
    assert house.outcomes("re") == ["started", "skipped", "started", "skipped"]


async def test_of_one_key_one_runs_one_waits_and_further_answers_are_skipped(house: House) -> None:
    edge(house)
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("conv", "workspace.applied", key="fleet")
        for _ in range(4):
            events.note(house.store, "settle", captured_event())
        await house.looked()
        assert house.outcomes("conv") == ["started", "queued", "skipped", "skipped"]
        assert house.told() == 1
        await house.finish()
        await house.looked()
        assert house.told() == 1
    skipped = [recorded.event.reason for recorded in house.happened(e.RuleSkipped)]
    assert len(skipped) == 2
    assert "waits with the key fleet" in skipped[0]


# When


async def test_what_happened_before_a_rule_was_added_is_not_answered(house: House) -> None:
    edge(house)
    async with living(house, reacting=False):
        await house.inventory("dc1", WEB)
        await house.apply("edge", WEB)
        await house.add("conv", "workspace.applied")
        since = rules.get(house.store, "conv").since
    assert house.happened(e.OutputsCaptured)[0].seq <= since < house.happened(e.RuleAdded)[0].seq
    async with living(house):  # the reactor has looked at nothing yet
        await house.looked()
        assert house.fires("conv") == ()
        await house.apply("edge", WEB)
        await house.looked()
    assert house.outcomes("conv") == ["started"]


async def test_disabled_it_answers_nothing_and_enabled_only_what_happens_from_then_on(house: House) -> None:
    edge(house)
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("conv", "workspace.applied")
        await house.box.ask(c.DisableRule(name="conv"))
        await house.apply("edge", WEB)
        await house.looked()
        assert house.fires("conv") == ()
    async with living(house, reacting=False):
        await house.apply("edge", WEB)
        await house.box.ask(c.EnableRule(name="conv"))
    async with living(house):
        await house.looked()
        assert house.fires("conv") == ()
        await house.apply("edge", WEB)
        await house.looked()
        assert house.outcomes("conv") == ["started"]
        for wrong, kind in (
            (c.EnableRule(name="conv"), Conflict),
            (c.DisableRule(name="x"), NotFound),
            (c.RemoveRule(name="x"), NotFound),
        ):
            with pytest.raises(kind):
                await house.box.ask(wrong)


async def test_removed_it_answers_no_more_and_its_history_is_gone(house: House) -> None:
    edge(house)
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("conv", "workspace.applied")
        await house.apply("edge", WEB)
        await house.looked()
        started = await house.finish()
        await house.box.ask(c.RemoveRule(name="conv"))
        await house.apply("edge", WEB)
        await house.looked()
    assert house.fires("conv") == ()
    assert house.of_rule("conv") == [started]


async def test_a_rule_that_was_disabled_while_it_was_being_answered_starts_nothing(house: House) -> None:
    async with living(house, reacting=False):
        await house.inventory("dc1", WEB)
        await house.add("conv", "inventory.added")
        await house.box.ask(c.DisableRule(name="conv"))
        work = rules.get(house.store, "conv").work
        assert await house.box.ask(FireRule(name="conv", event=1, cause=None, work=work)) is None
        assert house.told() == 0
    assert house.fires("conv") == ()


# {host}


async def test_in_its_limit_host_is_the_host_of_the_event(house: House) -> None:
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("greet", "host.joined", limit="{host}")
        await house.inventory("dc1", WEB, WEB2)
        await house.looked()
        mail, _ = await house.runner._receive.receive()
        assert mail.job.spec.limit == "web2"
    assert house.outcomes("greet") == ["started"]
    assert rules.get(house.store, "greet").work.options.limit == "{host}"


async def test_a_host_name_that_ansible_would_read_as_a_pattern_is_refused(house: House) -> None:
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("greet", "host.joined", limit="{host}")
        await house.inventory("dc2", Host(name="web*", address="192.0.2.3"))
        await house.looked()
        assert house.told() == 0
    (fire,) = house.fires("greet")
    assert fire.outcome is Outcome.REFUSED
    assert "'web*' cannot stand in --limit" in fire.reason


async def test_an_event_without_a_host_is_refused_for_a_limit_of_its_host(house: House) -> None:
    pin = e.HostPinned(name="192.0.2.1", key_type="ssh-ed25519", fingerprint="SHA256:x", trust=Trust.OPERATOR)
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("greet", "host.pinned", limit="{host}")
        events.note(house.store, "pin_host", pin)
        await house.looked()
    assert house.outcomes("greet") == ["refused"]


async def test_a_fault_in_one_rule_is_its_own_and_the_others_go_on(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = triggers.work

    def work(rule: Rule, event: Event) -> Work:
        if rule.name == "broken":
            raise TypeError("a bug")
        return sound(rule, event)

    monkeypatch.setattr(triggers, "work", work)
    pin = e.HostPinned(name="192.0.2.1", key_type="ssh-ed25519", fingerprint="SHA256:x", trust=Trust.OPERATOR)
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("broken", "host.pinned")
        await house.add("sound", "host.pinned")
        events.note(house.store, "pin_host", pin)
        await house.looked()
    assert house.outcomes("broken") == ["refused"]
    assert house.outcomes("sound") == ["started"]


# Fail closed


async def never_registered(house: House) -> None:
    await house.inventory("dc1", WEB)
    await house.box.ask(c.RemoveInventory(name="dc1", force=True))


async def hostless(house: House) -> None:
    await house.inventory("dc1", WEB)
    await house.inventory("dc1")


async def lost(house: House) -> None:
    await house.inventory("dc1", WEB)
    house.standing("dc1").unlink()


async def altered(house: House) -> None:
    await house.inventory("dc1", WEB)
    house.standing("dc1").write_text("all: {hosts: {web9: }}\n")


async def without_its_playbook(house: House) -> None:
    await house.inventory("dc1", WEB)
    house.playbook.unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (never_registered, "no inventory 'dc1'"),
        (hostless, "names no hosts (generation 2)"),
        (lost, "is lost"),
        (altered, "is not generation 1 any more"),
        (without_its_playbook, "No such file"),
    ],
    ids=lambda each: each.__name__ if callable(each) else "",
)
async def test_an_answer_that_fails_closed_enqueues_nothing_and_says_why_everywhere(
    house: House, spoil: Callable[[House], Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    edge(house)
    async with living(house):
        await spoil(house)
        await house.add("conv", "workspace.applied")
        apply = await house.apply("edge", WEB)
        await house.looked()
        (fire,) = house.fires("conv")
        assert (fire.outcome, fire.workflow) == (Outcome.REFUSED, None)
        assert said in fire.reason
        assert [each.id for each in workflows.every(house.store)] == [apply]
        assert house.told() == 0
        (event,) = [recorded.event for recorded in house.happened(e.RuleRefused)]
        assert (event.rule, event.event, event.target, event.workflow) == ("conv", fire.event, "dc1", None)
        assert said in event.reason
        assert said in caplog.text
        # The event was answered, by a refusal: mending the inventory answers the next one only.
        house.playbook.write_text("- hosts: all\n")
        await house.inventory("dc1", WEB, WEB2)
        await house.looked()
        assert house.told() == 0
        await house.apply("edge", WEB)
        await house.looked()
        assert house.told() == 1
    assert house.outcomes("conv") == ["refused", "started"]


async def test_an_inventory_of_a_workspace_that_was_never_applied_is_refused(house: House) -> None:
    edge(house, "edge", "new")
    async with living(house):
        await house.add("conv", "workspace.applied", target="tf:new")
        await house.apply("edge", WEB)
        await house.looked()
        assert house.told() == 0
    (fire,) = house.fires("conv")
    assert fire.outcome is Outcome.REFUSED
    assert "tf:new was never materialized" in fire.reason
    assert fire.hint == "apply the workspace first: exocomp workspace apply new"


@pytest.mark.parametrize(("limit", "outcome"), [("db*", "refused"), ("web*:!web1", "refused"), ("web*", "started")])
async def test_a_limit_that_leaves_nobody_is_refused_by_ansibles_own_patterns(
    house: House, limit: str, outcome: str
) -> None:
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("conv", "inventory.added", limit=limit)
        await house.inventory("dc2", WEB)
        with trio.fail_after(60):
            await house.tail.until(lambda: house.fires("conv") != ())
        await house.looked()
        assert house.told() == (outcome == "started")
    assert house.outcomes("conv") == [outcome]
    if outcome == "refused":
        assert f"--limit {limit!r} matches no host of inventory dc1" in house.fires("conv")[0].reason
        assert len(house.happened(e.RuleRefused)) == 1


# A daemon that dies


@pytest.mark.parametrize(
    "point",
    ["settle.apply.succeeded:after", "fire_rule:before", "fire_rule:after", "release.play:after", "look:before"],
)
async def test_killed_between_the_event_and_the_enqueue_it_fires_exactly_once(
    house: House, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge(house)
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("conv", "workspace.applied")
    armed = [point]

    def die(name: str) -> None:
        if name in armed:
            armed.clear()
            raise Killed

    monkeypatch.setattr(crash, "point", die)
    with pytest.raises(BaseExceptionGroup) as death:
        await apply_in_a_daemon(house)
    assert death.group_contains(Killed), death.value
    house.store.close()
    house.open()
    # The apply is in the ledger, whatever was killed after it.
    assert len(house.happened(e.OutputsCaptured)) == 1
    for _ in range(2):
        async with living(house):
            await house.looked()
    assert house.outcomes("conv") == ["started"]
    assert len(house.of_rule("conv")) == 1
    assert len(house.happened(e.RuleFired)) == 1


async def apply_in_a_daemon(house: House) -> None:
    async with living(house):
        await house.apply("edge", WEB)
        await house.looked()


async def test_an_event_is_answered_once_also_when_it_is_told_twice(house: House) -> None:
    async with living(house, reacting=False):
        await house.inventory("dc1", WEB)
        await house.add("conv", "inventory.added")
        mail = FireRule(name="conv", event=7, cause=None, work=rules.get(house.store, "conv").work)
        assert (await house.box.ask(mail)).outcome is Outcome.STARTED
        assert await house.box.ask(mail) is None
    assert house.outcomes("conv") == ["started"]


async def test_a_reactor_that_looks_at_everything_again_answers_nothing_twice(house: House) -> None:
    edge(house)
    async with living(house):
        await house.inventory("dc1", WEB)
        await house.add("conv", "workspace.applied")
        for _ in range(3):
            await house.apply("edge", WEB)
        await house.looked()
    before = house.outcomes("conv")
    rules.look(house.store, 0)
    async with living(house):
        await house.looked()
    assert house.outcomes("conv") == before == ["started"] * 3


async def test_how_far_it_has_looked_is_noted_now_and_then_also_when_no_rule_answers(house: House) -> None:
    async with living(house):
        with house.store.transaction("many") as tx:
            for number in range(REMEMBER + 1):
                tx.event(e.HostJoined(inventory="dc1", host=f"web{number}"))
        await house.looked()
    assert REMEMBER <= rules.looked(house.store) <= events.newest(house.store)
    assert inventories.names(house.store) == []
