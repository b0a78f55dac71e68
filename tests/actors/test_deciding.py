"""The question at a gate: asked once, decided once, void when it can't be answered, and what follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from exocomp.actors.expiry import Expiry
from exocomp.approval import Approval, ApprovalState, Change, Gate, Proposal, SavedPlan
from exocomp.errors import Conflict, NotAllowed
from exocomp.model import RunOptions, RunState, Workspace
from exocomp.protocol import approving as a
from exocomp.protocol import commands as c
from exocomp.protocol.mail import Begin, Decide, RunJob
from exocomp.store import approvals, workflows, workspaces
from tests.actors.test_sequencer import WEB, House, living

ASKS = RunOptions(require_approval=True)


@pytest.fixture
def house(tmp_path: Path):
    house = House(tmp_path)
    workspaces.add(house.store, Workspace(name="edge", directory="/m", root="/m"))
    yield house
    house.store.close()


def proposal(house: House, name: str = "plan", **fields: Any) -> Proposal:
    path = house.root / name
    path.write_bytes(b"sealed")
    changes = (Change(name="null_resource.web", action="delete"),)
    return Proposal(plan=SavedPlan(path=str(path), digest="d" * 64), changes=changes, **fields)


async def ask(house: House, kind: str = "apply", **fields: Any) -> tuple[str, Approval, RunJob]:
    """A workflow that waits at its gate, and the job that planned."""
    id = await house.start(kind, options=ASKS)
    planned = await house.told()
    await house.report(planned, proposal=proposal(house, id, **fields))
    (approval,) = approvals.every(house.store, state=ApprovalState.OPEN, workflow=id)
    return id, approval, planned


async def decide(house: House, approval: Approval, approve: bool = True, **fields: Any) -> c.Done:
    fields = {"projects": approval.proposal.projects, "by": "ada"} | fields
    return await house.box.ask(Decide(approval=approval.id, approve=approve, **fields))


async def test_a_step_at_its_gate_waits_and_nothing_else_is_started(house: House) -> None:
    async with living(house):
        id, approval, planned = await ask(house)
        assert planned.job.spec.gate is Gate.ALWAYS
        assert house.states(id) == ["waiting"]
        assert house.quiet()
        assert workflows.get(house.store, id).state is RunState.RUNNING
        (asked,) = house.happened(a.ApprovalAsked)
        assert (asked.approval, asked.destroys) == (approval.id, ("null_resource.web",))


async def test_approved_it_applies_that_plan_and_no_other(house: House) -> None:
    async with living(house):
        id, approval, _ = await ask(house)
        await decide(house, approval, reason="looks right")
        apply = await house.told()
        assert apply.job.spec.saved == approval.proposal.plan
        assert apply.job.spec.gate is Gate.NEVER
        assert approvals.get(house.store, approval.id).job == apply.job.id
        await house.report(apply, captured=house.captured(WEB))
    assert house.states(id) == ["succeeded"]
    (told,) = house.happened(a.ApprovalDecided)
    assert (told.approved, told.by, told.reason) == (True, "ada", "looks right")


async def test_rejected_its_workflow_is_cancelled_with_the_reason_and_the_plan_is_gone(house: House) -> None:
    async with living(house):
        id, approval, _ = await ask(house, "provision")
        await decide(house, approval, approve=False, reason="not on a Friday")
        assert house.quiet()
    workflow = workflows.get(house.store, id)
    assert workflow.state is RunState.CANCELLED
    assert "rejected by ada: not on a Friday" in workflow.reason
    assert house.states(id) == ["cancelled"] * 5
    assert not Path(approval.proposal.plan.path).exists()


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
async def test_the_first_decision_stands(house: House, first: bool, second: bool) -> None:
    async with living(house):
        _, approval, _ = await ask(house)
        await decide(house, approval, approve=first)
        with pytest.raises(Conflict, match="approved by ada" if first else "rejected by ada"):
            await decide(house, approval, approve=second, by="bob")
        assert len(house.happened(a.ApprovalDecided)) == 1


async def test_a_changed_project_voids_the_approval(house: House) -> None:
    async with living(house):
        id, approval, _ = await ask(house, projects={"/srv/site.yml": "one"})
        with pytest.raises(Conflict, match=r"the project of /srv/site.yml changed"):
            await decide(house, approval, projects={"/srv/site.yml": "two"})
        assert house.quiet()
    assert approvals.get(house.store, approval.id).state is ApprovalState.VOID
    assert workflows.get(house.store, id).state is RunState.CANCELLED


async def test_a_changed_project_can_still_be_rejected(house: House) -> None:
    async with living(house):
        _, approval, _ = await ask(house, projects={"/srv/site.yml": "one"})
        await decide(house, approval, approve=False, projects={})
    assert approvals.get(house.store, approval.id).state is ApprovalState.REJECTED


async def test_another_apply_of_the_workspace_voids_what_was_planned_before(house: House) -> None:
    async with living(house):
        id, approval, _ = await ask(house)
        other = await house.start("apply")
        await house.report(await house.told(), captured=house.captured(WEB))
        with pytest.raises(Conflict, match=f"{other} changed the state of workspace edge"):
            await decide(house, approval)
        assert house.quiet()
    assert workflows.get(house.store, id).state is RunState.CANCELLED
    assert len(house.happened(a.ApprovalVoided)) == 1


async def test_an_apply_that_moved_nothing_voids_nothing(house: House) -> None:
    async with living(house):
        _, approval, _ = await ask(house)
        await house.start("apply")
        still = msgspec.structs.replace(house.captured(WEB), moved=False)
        await house.report(await house.told(), captured=still)
        await decide(house, approval)
        assert (await house.told()).job.spec.saved == approval.proposal.plan


async def test_a_cancelled_workflow_withdraws_its_question(house: House) -> None:
    async with living(house):
        id, approval, _ = await ask(house)
        await house.box.ask(c.CancelWorkflow(id=id))
        with pytest.raises(Conflict, match="its workflow was cancelled"):
            await decide(house, approval)
    assert workflows.get(house.store, id).state is RunState.CANCELLED


async def test_who_asked_does_not_decide_when_the_setting_says_so(house: House) -> None:
    house.sequencer = house.make(approver_apart=True)
    async with living(house):
        order = c.StartWorkflow(kind="apply", workspace="edge", options=ASKS)
        id = (await house.box.ask(Begin(order=order, by="ada"))).workflow
        await house.report(await house.told(), proposal=proposal(house))
        (approval,) = approvals.every(house.store, workflow=id)
        assert approval.requester == "ada"
        with pytest.raises(NotAllowed, match="somebody else decides"):
            await decide(house, approval, by="ada")
        await decide(house, approval, by="bob")


async def test_a_question_outlives_the_daemon(house: House) -> None:
    async with living(house):
        _, approval, _ = await ask(house)
    house.sequencer = house.make()
    async with living(house):
        assert house.quiet()
        await decide(house, approval)
        assert (await house.told()).job.spec.saved == approval.proposal.plan


async def test_a_plan_that_was_begun_to_be_applied_is_not_applied_again_but_planned_anew(house: House) -> None:
    async with living(house):
        id, approval, _ = await ask(house)
        await decide(house, approval)
        await house.report(await house.told(), outcome="failed", reason="broke")
        await house.box.ask(c.RetryWorkflow(id=id))
        anew = await house.told()
        assert anew.job.spec.saved is None
        assert anew.job.spec.gate is Gate.ALWAYS
        await house.report(anew, proposal=proposal(house, "second"))
        (second,) = approvals.every(house.store, state=ApprovalState.OPEN)
        assert second.id != approval.id


async def test_nobody_deciding_in_time_voids_it(house: House) -> None:
    house.sequencer = house.make(approval_expires_s=0.0)
    async with living(house):
        id, approval, _ = await ask(house)
        async with trio.open_nursery() as nursery:
            await nursery.start(Expiry(house.store, boss=house.box).run)
            await trio.testing.wait_all_tasks_blocked(0.05)
            nursery.cancel_scope.cancel()
        with pytest.raises(Conflict, match="nobody decided in time"):
            await decide(house, approval)
    assert workflows.get(house.store, id).state is RunState.CANCELLED


@pytest.mark.parametrize(
    ("kind", "options", "gate"),
    [
        ("apply", RunOptions(), Gate.DESTROYS),
        ("apply", RunOptions(allow_destroy=True), Gate.NEVER),
        ("apply", ASKS, Gate.ALWAYS),
        ("provision", RunOptions(), Gate.NEVER),
        ("provision", ASKS, Gate.ALWAYS),
        ("handoff", ASKS, Gate.ALWAYS),
        ("destroy", RunOptions(), Gate.NEVER),
        ("destroy", ASKS, Gate.ALWAYS),
        ("plan", RunOptions(), Gate.NEVER),
    ],
)
async def test_which_runs_ask(house: House, kind: str, options: RunOptions, gate: Gate) -> None:
    async with living(house):
        await house.start(kind, options=options)
        assert (await house.told()).job.spec.gate is gate


async def test_what_was_approved_is_what_the_plays_after_it_must_be(house: House) -> None:
    async with living(house):
        projects = {"/runbooks/onboard.yml": "one", "/srv/site.yml": "two"}
        _, approval, planned = await ask(house, "provision", projects=projects)
        assert planned.job.spec.followed_by == tuple(projects)
        await decide(house, approval)
        await house.report(await house.told(), captured=house.captured(WEB))
        await house.report(await house.told())
        await house.report(await house.told())
        onboard = await house.told()
        assert onboard.job.spec.approved == "one"
