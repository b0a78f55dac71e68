"""The sequencer over a real store; the runners are mailboxes that the test reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from exocomp.actors.base import Mailbox
from exocomp.actors.sequencer import Sequencer
from exocomp.errors import Conflict, NotFound, WrongUsage
from exocomp.inventory import generations
from exocomp.model import Host, RunOptions, RunState, Tier, Workspace
from exocomp.protocol import commands as c
from exocomp.protocol import events as e
from exocomp.protocol.mail import Answered, Begin, Captured, Drain, Report, RunJob, RunnerRestarted, StopJob
from exocomp.protocol.queries import HostResult
from exocomp.secrets.sealing import Seal
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.store import events, inventories, jobs, steps, workflows
from exocomp.store.store import Store, StoreUnwell, open_writer

WEB = Host(name="web1", address="192.0.2.1")
LOCAL = Host(name="here", address="here", connection="local")


class House:
    """A sequencer with its store; `told` is what reached a runner."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store: Store = open_writer(root / "exocomp.db")
        self.box: Mailbox[Any] = Mailbox()
        self.runner: Mailbox[Any] = Mailbox()
        self.sequencer = self.make()

    def make(self, slots: int = 4, **more: Any) -> Sequencer:
        return Sequencer(
            self.store,
            mailbox=self.box,
            runners=dict.fromkeys(("tofu", "ansible", "probe", "scan"), self.runner),
            slots=slots,
            runbooks="/runbooks",
            keys=FleetKeys(self.root / "keys", Seal(bytes(32))),
            standing=lambda name: self.root / f"{name.removeprefix('tf:')}.json",
            **more,
        )

    async def told(self, kind: type = RunJob) -> Any:
        with trio.fail_after(5):
            message, _ = await self.runner._receive.receive()
        assert isinstance(message, kind)
        return message

    def quiet(self) -> bool:
        return self.runner._receive.statistics().current_buffer_used == 0

    async def start(self, kind: str = "provision", **fields: Any) -> str:
        playbook = "/srv/site.yml" if kind in ("provision", "handoff") else None
        order = c.StartWorkflow(kind=kind, workspace="edge", **{"playbook": playbook} | fields)
        return (await self.box.ask(Begin(order=order))).workflow

    def captured(self, *hosts: Host) -> Captured:
        names = {host.name: {"ansible_host": host.address} for host in hosts}
        path, digest = generations.write({"all": {"hosts": names}}, self.root / "generations")
        return Captured(inventory="tf:edge", path=str(path), digest=digest, hosts=hosts, outputs=1)

    async def report(self, mail: RunJob, outcome: str = "succeeded", **fields: Any) -> None:
        await self.box.ask(Report(job=mail.job.id, attempt=mail.attempt, outcome=outcome, **fields))

    def states(self, workflow: str) -> list[str]:
        return [step.state.value for step in steps.of(self.store, workflow)]

    def happened(self, kind: type) -> list[Any]:
        return [r.event for r in events.after(self.store, 0, limit=1000) if isinstance(r.event, kind)]


@asynccontextmanager
async def living(house: House) -> AsyncIterator[House]:
    async with trio.open_nursery() as nursery:
        await nursery.start(house.sequencer.run)
        yield house
        nursery.cancel_scope.cancel()


@pytest.fixture
def house(tmp_path: Path):
    house = House(tmp_path)
    from exocomp.store import workspaces

    workspaces.add(house.store, Workspace(name="edge", directory="/m", root="/m"))
    yield house
    house.store.close()


async def test_the_chain_goes_step_by_step_to_the_end(house: House) -> None:
    async with living(house):
        id = await house.start()
        apply = await house.told()
        assert apply.job.kind == "tofu"
        await house.report(apply, captured=house.captured(WEB))
        wait = await house.told()
        assert [host.name for host in wait.job.spec.hosts] == ["web1"]
        await house.report(wait)
        scan = await house.told()
        assert scan.job.kind == "scan"
        await house.report(scan)
        onboard = await house.told()
        assert (onboard.job.spec.playbook, onboard.job.spec.onboarding) == ("/runbooks/onboard.yml", True)
        await house.report(onboard, hosts=(HostResult(host="web1", outcome="ok"),))
        configure = await house.told()
        assert (configure.job.spec.playbook, configure.job.spec.onboarding) == ("/srv/site.yml", False)
        await house.report(configure)
    assert house.states(id) == ["succeeded"] * 5
    assert workflows.get(house.store, id).state is RunState.SUCCEEDED
    (captured,) = house.happened(e.OutputsCaptured)
    assert captured.message == f"captured 1 output(s) to inventory {house.root / 'edge.json'} naming 1 host(s)"


async def test_a_hostless_inventory_stops_after_the_apply_and_runs_nothing(house: House) -> None:
    async with living(house):
        id = await house.start()
        await house.report(await house.told(), captured=house.captured())
        assert house.quiet()
    assert house.states(id) == ["succeeded", "failed", "blocked", "blocked", "blocked"]
    assert "names no hosts" in workflows.get(house.store, id).reason


async def test_hosts_that_are_not_reached_over_ssh_are_neither_waited_for_nor_pinned_nor_onboarded(
    house: House,
) -> None:
    async with living(house):
        id = await house.start()
        await house.report(await house.told(), captured=house.captured(LOCAL))
        configure = await house.told()
        assert configure.job.step == "configure"
    assert house.states(id)[:4] == ["succeeded"] * 4


async def test_a_host_behind_a_jump_host_is_refused_with_that_reason(house: House) -> None:
    proxied = msgspec.structs.replace(WEB, proxy="ProxyJump=jump@198.51.100.1")
    async with living(house):
        id = await house.start()
        await house.report(await house.told(), captured=house.captured(proxied))
    assert "jump host" in workflows.get(house.store, id).reason


async def test_a_failed_step_leaves_the_rest_blocked(house: House) -> None:
    async with living(house):
        id = await house.start()
        await house.report(await house.told(), captured=house.captured(WEB))
        await house.report(await house.told(), "failed", reason="web1 did not answer", hint="look")
        assert house.quiet()
    assert house.states(id) == ["succeeded", "failed", "blocked", "blocked", "blocked"]
    assert workflows.get(house.store, id).reason == "wait: web1 did not answer"


async def test_an_onboarding_that_misses_a_host_fails(house: House) -> None:
    async with living(house):
        id = await house.start()
        await house.report(await house.told(), captured=house.captured(WEB))
        await house.report(await house.told())
        await house.report(await house.told())
        await house.report(await house.told(), hosts=())
    assert "did not reach 1 host(s): web1" in workflows.get(house.store, id).reason


async def test_one_workspace_has_one_writer_and_the_second_waits_its_turn(house: House) -> None:
    async with living(house):
        await house.start("apply")
        first = await house.told()
        second = await house.start("apply")
        assert house.quiet()
        assert house.states(second) == ["ready"]
        assert [queued.workflow for queued in house.happened(e.StepQueued)] == [second]
        await house.report(first)
        assert (await house.told()).job.workflow == second


async def test_slots_bound_the_jobs_that_run_at_once(house: House) -> None:
    from exocomp.store import workspaces

    workspaces.add(house.store, Workspace(name="other", directory="/m", root="/m"))
    house.sequencer = house.make(slots=1)
    async with living(house):
        await house.start("apply")
        first = await house.told()
        await house.box.ask(Begin(order=c.StartWorkflow(kind="apply", workspace="other")))
        assert house.quiet()
        await house.report(first)
        assert (await house.told()).job.spec.workspace.name == "other"


async def test_a_restart_adopts_what_runs_in_a_shim_and_repeats_nothing(house: House) -> None:
    async with living(house):
        await house.start()
        first = await house.told()
    house.sequencer = house.make()
    async with living(house):
        again = await house.told()
    assert (again.adopt, again.job.id, again.attempt) == (True, first.job.id, 1)
    assert len(house.happened(e.AttemptAdopted)) == 1


async def test_a_restart_runs_a_wait_again_because_it_lived_in_the_daemon(house: House) -> None:
    async with living(house):
        await house.start()
        await house.report(await house.told(), captured=house.captured(WEB))
        await house.told()
    house.sequencer = house.make()
    async with living(house):
        again = await house.told()
    assert (again.job.kind, again.attempt, again.adopt) == ("probe", 2, False)
    assert len(house.happened(e.AttemptLost)) == 1


async def test_a_restarted_prober_gets_its_job_again(house: House) -> None:
    async with living(house):
        await house.start()
        await house.report(await house.told(), captured=house.captured(WEB))
        await house.told()
        await house.box.tell(RunnerRestarted(kinds=("probe",)))
        assert (await house.told()).attempt == 2


async def test_a_lost_attempt_runs_again_but_not_for_ever(house: House) -> None:
    async with living(house):
        id = await house.start("apply")
        for attempt in (1, 2, 3):
            mail = await house.told()
            assert mail.attempt == attempt
            await house.report(mail, "lost", reason="power cut")
        assert house.quiet()
    assert "lost 3 times: power cut" in workflows.get(house.store, id).reason


async def test_a_late_report_of_a_lost_attempt_changes_nothing(house: House) -> None:
    async with living(house):
        id = await house.start("apply")
        mail = await house.told()
        await house.report(mail, "lost", reason="power cut")
        await house.told()
        await house.report(mail)
    assert house.states(id) == ["running"]


async def test_cancel_stops_the_running_job_and_ends_the_workflow(house: House) -> None:
    async with living(house):
        id = await house.start()
        mail = await house.told()
        await house.box.ask(c.CancelWorkflow(id=id))
        assert (await house.told(StopJob)).job == mail.job.id
        await house.report(mail, "cancelled")
    assert house.states(id) == ["cancelled"] * 5
    assert workflows.get(house.store, id).state is RunState.CANCELLED


async def test_a_step_that_succeeds_while_it_is_cancelled_is_recorded_and_nothing_follows(house: House) -> None:
    async with living(house):
        id = await house.start()
        mail = await house.told()
        await house.box.ask(c.CancelWorkflow(id=id))
        await house.told(StopJob)
        await house.report(mail, captured=house.captured(WEB))
        assert house.quiet()
    assert house.states(id) == ["succeeded", *["cancelled"] * 4]
    assert workflows.get(house.store, id).state is RunState.CANCELLED
    assert inventories.get(house.store, "tf:edge").number == 1


async def test_retry_goes_on_at_the_step_that_failed(house: House) -> None:
    async with living(house):
        id = await house.start()
        await house.report(await house.told(), captured=house.captured(WEB))
        await house.report(await house.told(), "failed", reason="no")
        await house.box.ask(c.RetryWorkflow(id=id))
        again = await house.told()
    assert (again.job.kind, again.attempt) == ("probe", 1)
    assert house.states(id)[:2] == ["succeeded", "running"]


async def test_retry_can_not_jump_over_a_step(house: House) -> None:
    async with living(house):
        id = await house.start()
        await house.report(await house.told(), "failed", reason="no")
        with pytest.raises(Conflict, match="apply has not succeeded"):
            await house.box.ask(c.RetryWorkflow(id=id, from_step="configure"))
        with pytest.raises(WrongUsage, match="no step 'nope'"):
            await house.box.ask(c.RetryWorkflow(id=id, from_step="nope"))


async def test_a_standing_file_that_was_altered_stops_the_play(house: House) -> None:
    async with living(house):
        id = await house.start()
        await house.report(await house.told(), captured=house.captured(LOCAL))
        mail = await house.told()
        await house.report(mail, "failed", reason="x")
        (house.root / "edge.json").chmod(0o600)
        (house.root / "edge.json").write_text('{"all": {"hosts": {"evil": {}}}}')
        await house.box.ask(c.RetryWorkflow(id=id))
        assert house.quiet()
    assert house.states(id)[-1] == "failed"


async def test_a_host_that_answers_is_an_event_of_its_own(house: House) -> None:
    async with living(house):
        await house.start()
        await house.report(await house.told(), captured=house.captured(WEB))
        wait = await house.told()
        await house.box.ask(Answered(job=wait.job.id, host=WEB, after_s=1.5, banner="SSH-2.0-x"))
    (answered,) = house.happened(e.HostAnswered)
    assert (answered.host, answered.address, answered.port) == ("web1", "192.0.2.1", 22)


async def test_a_draining_sequencer_releases_nothing(house: House) -> None:
    async with living(house):
        await house.start("apply")
        mail = await house.told()
        assert await house.box.ask(Drain()) == 1
        await house.start("apply")
        await house.report(mail)
        assert house.quiet()


async def test_orders_that_make_no_sense_are_refused_before_anything_is_recorded(house: House) -> None:
    async with living(house):
        newest = events.newest(house.store)
        with pytest.raises(NotFound, match="no workspace 'nope'"):
            await house.box.ask(Begin(order=c.StartWorkflow(kind="apply", workspace="nope")))
        with pytest.raises(WrongUsage, match="needs a playbook"):
            await house.start("provision", playbook=None)
        with pytest.raises(WrongUsage, match="no workflow is called"):
            await house.start("dance", playbook=None)
        assert events.newest(house.store) == newest


async def test_options_reach_the_configure_play_and_only_it(house: House) -> None:
    options = RunOptions(limit="web1", tags="a", check=True, extra_vars={"x": 1})
    async with living(house):
        await house.start(options=options)
        await house.report(await house.told(), captured=house.captured(WEB))
        await house.report(await house.told())
        await house.report(await house.told())
        onboard = await house.told()
        assert (onboard.job.spec.limit, onboard.job.spec.check) == (None, False)
        await house.report(onboard, hosts=(HostResult(host="web1", outcome="ok"),))
        spec = (await house.told()).job.spec
    assert (spec.limit, spec.tags, spec.check, spec.extra_vars) == ("web1", "a", True, {"x": 1})


ODD_PORT = msgspec.structs.replace(WEB, port=2222)


async def test_a_port_that_was_not_granted_is_refused_before_the_wait(house: House) -> None:
    async with living(house):
        id = await house.start()
        await house.report(await house.told(), captured=house.captured(ODD_PORT))
        assert house.quiet()
    ended = workflows.get(house.store, id)
    assert "web1 answers SSH on port 2222" in ended.reason
    assert ended.hint == "run it with --egress 2222"
    assert house.states(id) == ["succeeded", "failed", "blocked", "blocked", "blocked"]


@pytest.mark.parametrize("kind", ["provision", "handoff"])
async def test_a_granted_port_is_waited_for_and_reaches_the_play(house: House, kind: str) -> None:
    async with living(house):
        await house.start(kind, options=RunOptions(egress=(2222,)))
        await house.report(await house.told(), captured=house.captured(ODD_PORT))
        job = (await house.told()).job
    assert job.kind == {"provision": "probe", "handoff": "ansible"}[kind]


@pytest.mark.parametrize(
    ("key", "options", "refused"),
    [
        ("/home/op/.ssh/id", RunOptions(), True),
        ("~/.ssh/id", RunOptions(), True),
        ("/home/op/.ssh/id", RunOptions(ssh_identities=("/home/op/.ssh/id",)), False),
        ("/data/keys/id", RunOptions(), False),
        ("keys/id", RunOptions(), False),
    ],
)
async def test_a_key_file_that_no_job_may_read_is_refused_with_its_flag(
    house: House, key: str, options: RunOptions, refused: bool
) -> None:
    house.sequencer = house.make(data_dir="/data")
    async with living(house):
        id = await house.start(options=options)
        host = msgspec.structs.replace(WEB, identity_file=key)
        await house.report(await house.told(), captured=house.captured(host))
        if not refused:
            await house.told()
    assert house.states(id)[1] == ("failed" if refused else "running")
    assert ("--ssh-identity" in workflows.get(house.store, id).hint) is refused


async def test_without_a_jail_nothing_is_out_of_reach_and_the_tier_is_recorded(house: House) -> None:
    house.sequencer = house.make(tier=Tier.OFF)
    async with living(house):
        await house.start()
        apply = await house.told()
        await house.report(apply, captured=house.captured(ODD_PORT))
        wait = await house.told()
    assert jobs.tier(house.store, apply.job.id) is Tier.OFF
    assert jobs.tier(house.store, wait.job.id) is None


async def test_a_lost_job_runs_again_although_it_was_the_last_that_the_slots_allow(house: House) -> None:
    house.sequencer = house.make(slots=1)
    async with living(house):
        await house.start("apply")
        first = await house.told()
        await house.report(first, "lost")
        again = await house.told()
    assert (again.job.id, again.attempt) == (first.job.id, 2)


async def test_a_lost_job_that_is_cancelled_before_its_next_run_gives_its_key_free(house: House) -> None:
    async with living(house):
        id = await house.start("apply")
        lost = await house.told()
        await house.box.ask(Drain())
        await house.report(lost, "lost")
        assert house.states(id) == ["ready"]
        await house.box.ask(c.CancelWorkflow(id=id))
    assert jobs.get(house.store, lost.job.id).state == "cancelled"
    house.sequencer = house.make()
    async with living(house):
        await house.start("apply")
        assert (await house.told()).job.id != lost.job.id


async def test_a_chain_goes_on_over_its_own_generation_when_a_later_apply_moved_the_inventory_on(
    house: House,
) -> None:
    async with living(house):
        await house.start("handoff")
        mine = await house.told()
        later = await house.start("apply")
        await house.report(mine, captured=house.captured(LOCAL))
        plays = [await house.told(), await house.told()]
        (play,) = [mail for mail in plays if mail.job.kind == "ansible"]
        await house.report(next(mail for mail in plays if mail is not play), captured=house.captured(LOCAL, WEB))
        await house.report(play)
        assert workflows.get(house.store, later).state == "succeeded"
        onward = await house.start("handoff")
        await house.report(await house.told(), captured=house.captured(LOCAL, WEB))
        assert (await house.told()).job.spec.generation.number == 2
        workflows_of = workflows.get(house.store, onward)
    assert workflows_of.state == "running"


async def test_an_order_that_is_on_disk_is_answered_so_although_what_follows_it_cannot_be_recorded(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StoreUnwell("the disk is full")

    with pytest.RaisesGroup(StoreUnwell, flatten_subgroups=True):
        async with living(house):
            monkeypatch.setattr(steps, "release", full)
            id = await house.start("apply")
            await trio.sleep_forever()
    assert workflows.get(house.store, id).state == "running"


@pytest.mark.parametrize("name", ["x\n* ssh-ed25519 AAAA", "evil,*", "|1|a|b", ""])
async def test_a_pin_is_taken_only_under_a_name_that_is_one_host(house: House, name: str) -> None:
    key = c.ScannedKey(key_type="ssh-ed25519", key=f"AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 43}", fingerprint="no")
    async with living(house):
        with pytest.raises(WrongUsage, match="is no name"):
            await house.box.ask(c.PinHost(name=name, keys=(key,)))
        await house.box.ask(c.PinHost(name="[192.0.2.1]:2222", keys=(key,)))
        with pytest.raises(WrongUsage, match="key is none"):
            await house.box.ask(c.PinHost(name="192.0.2.1", keys=(msgspec.structs.replace(key, key="AAAA"),)))
    (pinned,) = house.happened(e.HostPinned)
    assert pinned.fingerprint.startswith("SHA256:")


async def test_a_wait_goes_on_however_often_the_daemon_is_restarted(house: House) -> None:
    async with living(house):
        id = await house.start()
        await house.report(await house.told(), captured=house.captured(WEB))
    for tries in range(1, 6):
        async with living(house):
            assert (await house.told()).attempt == tries
        house.sequencer = house.make()
    async with living(house):
        await house.box.ask(c.CancelWorkflow(id=id))
        await house.told()
    house.sequencer = house.make()
    async with living(house):
        assert workflows.get(house.store, id).state == "cancelled"
