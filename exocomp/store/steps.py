"""The ledger's rows: every move of a step, with its job and attempt, each function one transaction."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from exocomp.errors import IllegalMove, StaleMove
from exocomp.model import MOVES, RunState, StepRow, StepState, Tier
from exocomp.protocol.events import AttemptAdopted, AttemptLost, HostKeyRefused, StepMoved, WorkflowEnded
from exocomp.protocol.jobs import Job, PlayJob, TofuJob
from exocomp.protocol.mail import Report
from exocomp.protocol.queries import HostResult
from exocomp.store import hosts, pins, rows
from exocomp.store.store import Store, Transaction

OF = f"SELECT {rows.STEP} FROM step WHERE workflow = ? ORDER BY position"
ONE = f"SELECT {rows.STEP} FROM step WHERE workflow = ? AND name = ?"
READY = f"SELECT {rows.STEP} FROM step WHERE state = 'ready' ORDER BY workflow, position"
MOVE = """
UPDATE step SET state = ?1, job = coalesce(?2, job), reason = ?3, hint = ?4,
  started_at = CASE WHEN ?1 = 'running' THEN coalesce(started_at, ?5) ELSE started_at END,
  ended_at = CASE WHEN ?1 IN ('succeeded', 'failed', 'cancelled') THEN ?5 END
WHERE workflow = ?6 AND name = ?7 AND state = ?8
"""
WORKSPACE = "SELECT workspace FROM workflow WHERE id = ?"
ADD_JOB = """
INSERT INTO job (id, workflow, step, kind, spec, key, state, attempt, created_at)
VALUES (?, ?, ?, ?, ?, ?, 'running', 1, ?)
"""
USE = "UPDATE workflow SET generation = ? WHERE id = ? AND generation IS NULL"
NEXT_ATTEMPT = "UPDATE job SET attempt = attempt + 1 WHERE id = ? AND state = 'running'"
ADD_ATTEMPT = "INSERT INTO attempt (job, number, state, started_at, tier) VALUES (?, ?, 'running', ?, ?)"
END_ATTEMPT = """
UPDATE attempt SET state = ?, ended_at = ?, exit_code = ?, source = ?, git_commit = ?
WHERE job = ? AND number = ? AND state = 'running'
"""
END_JOB = "UPDATE job SET state = ?, ended_at = ?, reason = ?, hint = ? WHERE id = ? AND state = 'running'"
PUT_HOST = f"""
INSERT OR REPLACE INTO host_result (job, {rows.HOST_RESULT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
END_WORKFLOW = "UPDATE workflow SET state = ?, ended_at = ?, reason = ?, hint = ? WHERE id = ? AND state = 'running'"
NEXT_STEP = f"SELECT {rows.STEP} FROM step WHERE workflow = ? AND position > ? ORDER BY position LIMIT 1"
JOB = f"SELECT {rows.JOB} FROM job WHERE id = ?"
RUNNING_JOBS = f"""
SELECT {rows.JOB} FROM job WHERE state = 'running' AND EXISTS (
  SELECT 1 FROM attempt WHERE job = job.id AND number = job.attempt AND attempt.state = 'running')
ORDER BY created_at
"""
APPLY_PLAN = "UPDATE approval SET job = ? WHERE workflow = ? AND state = 'approved' AND job IS NULL"
KEY_HOLDER = "SELECT workflow FROM job WHERE key = ? AND state = 'running'"

Capture = Callable[[Transaction], None]


def of(store: Store, workflow: str) -> tuple[StepRow, ...]:
    return tuple(map(rows.step, store.rows(OF, workflow)))


def ready(store: Store) -> tuple[StepRow, ...]:
    """Steps that may be released, oldest workflow first."""
    return tuple(map(rows.step, store.rows(READY)))


def running_jobs(store: Store) -> tuple[Job, ...]:
    """Jobs with a running attempt; one whose attempt was lost keeps its key, but waits for its next release."""
    return tuple(map(rows.job, store.rows(RUNNING_JOBS)))


def key_holder(store: Store, key: str) -> str | None:
    """The workflow whose job holds the concurrency key."""
    row = store.row(KEY_HOLDER, key)
    return str(row[0]) if row else None


def move(
    tx: Transaction,
    step: StepRow,
    new: StepState,
    *,
    job: str | None = None,
    attempt: int | None = None,
    reason: str = "",
    hint: str = "",
) -> None:
    """The one UPDATE of a step's state, with its event; raises IllegalMove or StaleMove."""
    if new not in MOVES[step.state]:
        raise IllegalMove(f"step {step.name} of {step.workflow} cannot go from {step.state} to {new}")
    changed = tx.run(MOVE, new.value, job, reason, hint, tx.now, step.workflow, step.name, step.state.value)
    if changed != 1:
        raise StaleMove(f"step {step.name} of {step.workflow} is no longer {step.state}")
    tx.event(
        StepMoved(
            workflow=step.workflow,
            workspace=workspace_of(tx, step.workflow),
            step=step.name,
            stage=step.stage,
            old=step.state,
            new=new,
            job=job or step.job,
            attempt=attempt,
            reason=reason,
            hint=hint,
        )
    )


def workspace_of(tx: Transaction, workflow: str) -> str | None:
    row = tx.row(WORKSPACE, workflow)
    return row[0] if row else None


def release(store: Store, step: StepRow, job: Job, tier: Tier | None = None) -> Job:
    """ready → running with a new job, or with the next attempt of the job that was lost; returns it as recorded."""
    with store.transaction(f"release.{step.name}") as tx:
        if tx.row(JOB, job.id):
            if tx.run(NEXT_ATTEMPT, job.id) != 1:
                raise StaleMove(f"job {job.id} has ended")
            job = msgspec.structs.replace(job, attempt=job.attempt + 1)
        else:
            spec = msgspec.json.encode(job.spec).decode()
            tx.run(ADD_JOB, job.id, step.workflow, step.name, job.kind, spec, job.key, tx.now)
        tx.run(ADD_ATTEMPT, job.id, job.attempt, tx.now, tier and tier.value)
        if isinstance(job.spec, PlayJob):
            tx.run(USE, job.spec.generation.number, step.workflow)
        if isinstance(job.spec, TofuJob) and job.spec.saved is not None and job.attempt == 1:
            tx.run(APPLY_PLAN, job.id, step.workflow)
        move(tx, step, StepState.RUNNING, job=job.id, attempt=job.attempt)
    return job


def skip(store: Store, step: StepRow, reason: str) -> None:
    """ready → succeeded: there was nothing to do."""
    with store.transaction(f"skip.{step.name}") as tx:
        move(tx, step, StepState.SUCCEEDED, reason=reason)
        _go_on(tx, step)


def refuse(store: Store, step: StepRow, reason: str, hint: str) -> None:
    """ready → failed: the step was refused before anything ran; the workflow ends."""
    with store.transaction(f"refuse.{step.name}") as tx:
        move(tx, step, StepState.FAILED, reason=reason, hint=hint)
        end_workflow(tx, step.workflow, RunState.FAILED, f"{step.stage}: {reason}", hint)


def settle(store: Store, step: StepRow, report: Report, new: StepState, capture: Capture | None = None) -> None:
    """Record how the attempt ended: step, job, attempt, hosts, pins and capture, and what follows, at once."""
    with store.transaction(f"settle.{step.name}.{new.value}") as tx:
        state = RunState(new.value)
        end_attempt(tx, report, state)
        put_hosts(tx, report.job, report.hosts)
        hosts.record(tx, report)
        workspace = workspace_of(tx, step.workflow)
        for host, name, recorded, offered in report.refused:
            tx.event(
                HostKeyRefused(
                    workflow=step.workflow,
                    workspace=workspace,
                    host=host,
                    name=name,
                    recorded=recorded,
                    offered=offered,
                )
            )
        if new is StepState.SUCCEEDED:
            pins.record(tx, report.pins, workspace=workspace)
            if capture is not None:
                capture(tx)
        move(tx, step, new, attempt=report.attempt, reason=report.reason, hint=report.hint)
        if new is StepState.SUCCEEDED:
            _go_on(tx, step)
        else:
            end_workflow(tx, step.workflow, state, f"{step.stage}: {report.reason}", report.hint)


def end_attempt(tx: Transaction, report: Report, state: RunState) -> None:
    """The attempt is finished, and with it its job; raises StaleMove."""
    ended = ("finished", tx.now, report.exit_code, report.source, report.commit)
    if tx.run(END_ATTEMPT, *ended, report.job, report.attempt) != 1:
        raise StaleMove(f"attempt {report.attempt} of {report.job} is not running")
    if tx.run(END_JOB, state.value, tx.now, report.reason, report.hint, report.job) != 1:
        raise StaleMove(f"job {report.job} is not running")


def rearm(store: Store, step: StepRow, job: Job, reason: str) -> None:
    """running → ready: the attempt is lost, the next release runs the job again."""
    with store.transaction(f"rearm.{step.name}") as tx:
        if tx.run(END_ATTEMPT, "lost", tx.now, None, None, None, job.id, job.attempt) != 1:
            raise StaleMove(f"attempt {job.attempt} of {job.id} is not running")
        workspace = workspace_of(tx, step.workflow)
        tx.event(
            AttemptLost(
                workflow=step.workflow,
                workspace=workspace,
                step=step.name,
                job=job.id,
                attempt=job.attempt,
                reason=reason,
            )
        )
        move(tx, step, StepState.READY, attempt=job.attempt, reason=reason)


def withdraw(tx: Transaction, step: StepRow, reason: str) -> None:
    """A step that is not running becomes cancelled, and so does the job that a lost attempt left to it."""
    if step.job is not None:
        tx.run(END_JOB, RunState.CANCELLED.value, tx.now, reason, "", step.job)
    move(tx, step, StepState.CANCELLED, reason=reason)


def adopt(store: Store, step: StepRow, job: Job) -> None:
    """Note that a running attempt of an earlier daemon was taken over."""
    with store.transaction(f"adopt.{step.name}") as tx:
        tx.event(
            AttemptAdopted(
                workflow=step.workflow,
                workspace=workspace_of(tx, step.workflow),
                step=step.name,
                job=job.id,
                attempt=job.attempt,
            )
        )


def put_hosts(tx: Transaction, job: str, hosts: tuple[HostResult, ...]) -> None:
    for host in hosts:
        tx.run(PUT_HOST, job, *msgspec.structs.astuple(host))


def end_workflow(tx: Transaction, workflow: str, state: RunState, reason: str = "", hint: str = "") -> None:
    if tx.run(END_WORKFLOW, state.value, tx.now, reason, hint, workflow) != 1:
        raise StaleMove(f"workflow {workflow} is not running")
    tx.event(
        WorkflowEnded(workflow=workflow, workspace=workspace_of(tx, workflow), state=state, reason=reason, hint=hint)
    )


def _go_on(tx: Transaction, done: StepRow) -> None:
    following = tx.row(NEXT_STEP, done.workflow, done.position)
    if following is None:
        end_workflow(tx, done.workflow, RunState.SUCCEEDED)
        return
    step = rows.step(following)
    if step.state is StepState.CANCELLED:
        end_workflow(tx, done.workflow, RunState.CANCELLED, "cancelled by the operator")
    else:
        move(tx, step, StepState.READY)
