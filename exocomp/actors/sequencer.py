"""The sequencer: the only writer of workflow state; save, then tell, then do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from exocomp import ids
from exocomp.actors import orders
from exocomp.actors.admission import Admission
from exocomp.actors.base import Actor, Mailbox
from exocomp.actors.deciding import Deciding
from exocomp.actors.firing import Firing
from exocomp.actors.rotation import Rotation
from exocomp.errors import Conflict, ExocompError
from exocomp.inventory import generations
from exocomp.model import RunState, StepRow, StepState, Tier, Workflow
from exocomp.protocol import commands as c
from exocomp.protocol.events import StepQueued
from exocomp.protocol.jobs import Job, PlayJob
from exocomp.protocol.mail import (
    Answered,
    Decide,
    Drain,
    ExpireApprovals,
    FireRule,
    FireSchedule,
    ReplanSchedule,
    Report,
    RunJob,
    RunnerRestarted,
    SchedulesChanged,
    StopJob,
)
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.store import approvals, events, inventories, jobs, steps, workflows
from exocomp.store.store import Store, StoreUnwell, Transaction
from exocomp.workflows import base, chains

log = logging.getLogger(__name__)

SHIMMED = frozenset({"tofu", "ansible"})
Mail = (
    orders.Order
    | c.RotateFleetKey
    | FireSchedule
    | ReplanSchedule
    | FireRule
    | Decide
    | ExpireApprovals
    | Report
    | Answered
    | RunnerRestarted
    | Drain
)
PLANS = c.AddSchedule | c.RemoveSchedule | c.PauseSchedule | c.ResumeSchedule


class Sequencer(Actor[Mail]):
    """`runners` maps a job kind to the mailbox of the actor which runs it; `slots` bounds shims at once.

    `scheduler` is told when schedules changed.
    """

    def __init__(
        self,
        store: Store,
        *,
        mailbox: Mailbox[Any],
        runners: dict[str, Mailbox[Any]],
        slots: int,
        runbooks: str,
        keys: FleetKeys,
        standing: Callable[[str], Path],
        scheduler: Mailbox[Any] | None = None,
        tier: Tier = Tier.ENFORCING,
        data_dir: str = "",
        approval_expires_s: float = 7 * 86400.0,
        approver_apart: bool = False,
    ) -> None:
        super().__init__(mailbox=mailbox)
        self.store = store
        self._runners = runners
        self._slots = slots
        self._admission = Admission(store, standing=standing, runbooks=runbooks, tier=tier, data_dir=data_dir)
        self._firing = Firing(store, self._admission)
        self._deciding = Deciding(store, expires_s=approval_expires_s, apart=approver_apart)
        self._rotation = Rotation(store, keys)
        self._scheduler = scheduler
        self._tier = tier
        self._draining = False
        self._queued: set[tuple[str, str]] = set()

    async def recover(self) -> None:
        # A restart of the daemon says nothing against a job that lives in memory: it does not use up its tries.
        for job in steps.running_jobs(self.store):
            if job.kind not in SHIMMED and not workflows.is_cancelling(self.store, job.workflow):
                steps.rearm(self.store, self._row(job), job, "the daemon was restarted")
        await self._take_up(tuple(self._runners))
        await self._advance()

    async def handle(self, message: Mail) -> Any:
        reply: Any = None
        match message:
            case Drain():
                self._draining = True
                return len(steps.running_jobs(self.store))
            case Answered():
                self._note_answer(message)
                return None
            case Report():
                self._settle(message)
            case RunnerRestarted(kinds=kinds):
                await self._take_up(kinds)
            case c.RotateFleetKey():
                reply = self._rotation.begin(self._admission, message)
            case FireSchedule():
                reply = self._firing.by_hand(message) if message.due_at is None else self._firing.schedule(message)
            case FireRule():
                reply = self._firing.rule(message)
            case Decide():
                reply = self._deciding.decide(message)
            case ExpireApprovals():
                self._deciding.expire()
            case ReplanSchedule():
                self._firing.replan(message)
                return None
            case _:
                reply = orders.carry_out(self.store, self._admission, message)
                if isinstance(message, c.CancelWorkflow):
                    await self._stop_jobs(workflows.find(self.store, message.id).id)
                if isinstance(message, PLANS) and self._scheduler is not None:
                    await self._scheduler.tell(SchedulesChanged())
        try:
            await self._advance()
        except StoreUnwell:
            if reply is None:
                raise
            # The order itself is on disk and is answered so; what should have followed it fails as mail of its own.
            self.mailbox.nudge(RunnerRestarted(kinds=()))
        return reply

    async def _stop_jobs(self, workflow: str) -> None:
        for job in steps.running_jobs(self.store):
            if job.workflow == workflow:
                await self._runners[job.kind].tell(StopJob(job=job.id))

    def _note_answer(self, mail: Answered) -> None:
        job = jobs.get(self.store, mail.job)
        if job.state == RunState.RUNNING:
            workflows.answered(self.store, workflows.get(self.store, job.workflow), mail)

    async def _take_up(self, kinds: tuple[str, ...]) -> None:
        """Adopt running shims; a job that lived in an actor's memory is lost with it and runs again."""
        for job in steps.running_jobs(self.store):
            step = self._row(job)
            if job.kind not in kinds or step.state is not StepState.RUNNING:
                continue
            if job.kind in SHIMMED:
                steps.adopt(self.store, step, job)
                await self._runners[job.kind].tell(RunJob(job=job, attempt=job.attempt, adopt=True))
                if workflows.is_cancelling(self.store, job.workflow):
                    await self._runners[job.kind].tell(StopJob(job=job.id))
            else:
                lost = Report(job=job.id, attempt=job.attempt, outcome="lost", reason="what ran it died")
                self._conclude(job, step, lost)

    def _settle(self, report: Report) -> None:
        job = jobs.get(self.store, report.job)
        if job.state != RunState.RUNNING or job.attempt != report.attempt:
            log.warning("late report of %s attempt %s dropped: %s", report.job, report.attempt, report.outcome)
            return
        self._conclude(job, self._row(job), report)

    def _conclude(self, job: Job, row: StepRow, report: Report) -> None:
        workflow = workflows.get(self.store, row.workflow)
        if workflows.is_cancelling(self.store, workflow.id) and report.outcome != "succeeded":
            steps.settle(
                self.store,
                row,
                msgspec.structs.replace(report, reason=report.reason or "cancelled by the operator"),
                StepState.CANCELLED,
            )
            return
        step = chains.step(workflow.kind, row.name)
        match step.settle(self._admission.run_of(workflow), report):
            case base.Done() if report.proposal is not None:
                self._deciding.ask(row, workflow, report)
            case base.Done():
                self._succeed(row, workflow, report)
            case base.Again(reason=reason):
                steps.rearm(self.store, row, job, reason)
            case base.Fail(reason=reason, hint=hint):
                failed = msgspec.structs.replace(report, reason=reason, hint=hint)
                steps.settle(self.store, row, failed, StepState.FAILED)

    def _succeed(self, row: StepRow, workflow: Workflow, report: Report) -> None:
        try:
            steps.settle(self.store, row, report, StepState.SUCCEEDED, self._capture(row, workflow, report))
        except Conflict as conflict:
            failed = msgspec.structs.replace(report, reason=conflict.what, hint=conflict.hint)
            steps.settle(self.store, row, failed, StepState.FAILED)

    def _capture(self, step: StepRow, workflow: Workflow, report: Report) -> steps.Capture | None:
        got = report.captured
        if got is None or workflow.workspace is None:
            return None
        workspace = workflow.workspace
        standing = self._admission.publish(got)

        def capture(tx: Transaction) -> None:
            inventories.capture(
                tx,
                got,
                verb=step.name,
                workflow=workflow.id,
                workspace=workspace,
                standing=str(standing),
                message=generations.captured_message(got.outputs, standing, len(got.hosts)),
            )
            if got.moved:
                approvals.moved_on(tx, workspace, workflow.id)

        return capture

    async def _advance(self) -> None:
        """Release every ready step whose key is free while there are slots."""
        settled = True
        while settled and not self._draining:
            settled = False
            self._rotation.conclude()
            running = sum(job.kind in SHIMMED for job in steps.running_jobs(self.store))
            for row in steps.ready(self.store):
                workflow = workflows.get(self.store, row.workflow)
                ahead = workflows.of_key(self.store, workflow.key) if workflow.key else ()
                if ahead and ahead[0].id != workflow.id:
                    self._say_queued(row, workflow, ahead[0].id)
                    continue
                job = self._order(row, workflow)
                if job is None:
                    settled = True
                    continue
                holder = steps.key_holder(self.store, job.key) if job.key else None
                if holder is not None and row.job is None:
                    self._say_queued(row, workflow, holder)
                elif job.kind in SHIMMED and running >= self._slots:
                    self._say_queued(row, workflow, "other jobs")
                else:
                    running += job.kind in SHIMMED
                    job = steps.release(self.store, row, job, self._tier if job.kind in SHIMMED else None)
                    self._queued.discard((row.workflow, row.name))
                    await self._runners[job.kind].tell(RunJob(job=job, attempt=job.attempt))

    def _order(self, row: StepRow, workflow: Workflow) -> Job | None:
        """The job of a ready step; None when the step was refused or had nothing to do, which is then recorded."""
        if row.job is not None:
            return jobs.get(self.store, row.job)
        step = chains.step(workflow.kind, row.name)
        run = self._admission.run_of(workflow)
        try:
            spec = step.order(run)
            if isinstance(spec, PlayJob):
                # A later apply may have moved the inventory on: what stands must be what that one wrote.
                self._admission.check_target(spec.generation.inventory)
        except ExocompError as refusal:
            steps.refuse(self.store, row, refusal.what, refusal.hint)
            return None
        if isinstance(spec, base.Nothing):
            steps.skip(self.store, row, spec.reason)
            return None
        return Job(
            id=ids.new("job"),
            workflow=workflow.id,
            step=row.name,
            spec=spec,
            key=step.key(run),
            state=RunState.RUNNING,
            attempt=1,
            created_at=self.store.now(),
        )

    def _say_queued(self, row: StepRow, workflow: Workflow, behind: str) -> None:
        if (row.workflow, row.name) in self._queued:
            return
        self._queued.add((row.workflow, row.name))
        event = StepQueued(workflow=workflow.id, workspace=workflow.workspace, step=row.name, behind=behind)
        events.note(self.store, f"queue.{row.name}", event)

    def _row(self, job: Job) -> StepRow:
        return next(row for row in steps.of(self.store, job.workflow) if row.name == job.step)
