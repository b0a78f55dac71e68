"""Approvals: what a step asks before it applies its plan, and the one decision."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec

from exocomp import ids
from exocomp.approval import Approval, ApprovalState, Proposal
from exocomp.errors import Conflict, NotFound
from exocomp.model import RunState, StepRow, StepState, Workflow
from exocomp.protocol.approving import ApprovalAsked, ApprovalDecided, ApprovalVoided
from exocomp.protocol.mail import Report
from exocomp.store import rows, steps
from exocomp.store.store import Store, Transaction

ADD = f"INSERT INTO approval ({rows.APPROVAL}) VALUES (?, ?, ?, ?, ?, ?, 'open', ?, ?, ?, NULL, '', '', NULL)"
ONE = f"SELECT {rows.APPROVAL} FROM approval WHERE id = ?"
MATCHING = """
SELECT id FROM approval
WHERE substr(id, 1, length(?1)) = ?1 OR substr(id, -length(?1)) = ?1 OR substr(id, 4, length(?1)) = ?1 LIMIT 3
"""
LIST = f"""
SELECT {rows.APPROVAL} FROM approval
WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR workflow = ?2) ORDER BY rowid DESC LIMIT ?3
"""
OPEN_OF = f"""
SELECT {rows.APPROVAL} FROM approval
WHERE state = 'open' AND (workflow = ?1 OR workspace = ?2 OR expires_at <= ?3) ORDER BY rowid
"""
DECIDE = """
UPDATE approval SET state = ?, decided_at = ?, decided_by = ?, reason = ? WHERE id = ? AND state = 'open'
"""
APPLIED = f"""
SELECT {rows.APPROVAL} FROM approval WHERE workflow = ? AND state = 'approved' ORDER BY rowid DESC LIMIT 1
"""
NEXT_EXPIRY = "SELECT min(expires_at) FROM approval WHERE state = 'open'"
ANEW = "UPDATE step SET job = NULL WHERE workflow = ? AND name = ?"
KEPT = """
SELECT json_extract(proposal, '$.plan.path') FROM approval
WHERE state = 'open' OR (state = 'approved' AND (job IS NULL
  OR EXISTS (SELECT 1 FROM job WHERE job.id = approval.job AND job.state = 'running')))
"""


def of_proposal(workflow: Workflow, step: str, proposal: Proposal, *, now: float, expires_s: float) -> Approval:
    """The question to ask; its digest covers whose it is, the saved plan, and every project that runs after it."""
    asked = [workflow.id, workflow.workspace, step, proposal.plan.digest, sorted(proposal.projects.items())]
    return Approval(
        id=ids.new("ap"),
        workflow=workflow.id,
        workspace=workflow.workspace or "",
        step=step,
        proposal=proposal,
        digest=hashlib.sha256(msgspec.json.encode(asked)).hexdigest(),
        state=ApprovalState.OPEN,
        asked_at=now,
        expires_at=now + expires_s,
        requester=workflow.requester,
    )


def ask(store: Store, step: StepRow, report: Report, approval: Approval) -> None:
    """running → waiting: the job that planned has ended, and its question stands."""
    with store.transaction(f"ask.{step.name}") as tx:
        steps.end_attempt(tx, report, RunState.SUCCEEDED)
        _ask(tx, step, report.attempt, approval)


def _ask(tx: Transaction, step: StepRow, attempt: int, approval: Approval) -> None:
    proposal = msgspec.json.encode(approval.proposal).decode()
    what = (approval.id, approval.workflow, approval.workspace, approval.step, proposal, approval.digest)
    tx.run(ADD, *what, approval.asked_at, approval.expires_at, approval.requester)
    summary = approval.proposal.count()
    waits = f"{summary}: waits for a decision on {approval.id}"
    hint = f"exocomp approval show {approval.id}, then exocomp approval decide {approval.id} --approve or --reject"
    steps.move(tx, step, StepState.WAITING, attempt=attempt, reason=waits, hint=hint)
    tx.event(
        ApprovalAsked(
            workflow=approval.workflow,
            workspace=approval.workspace,
            approval=approval.id,
            step=approval.step,
            summary=summary,
            destroys=tuple(change.name for change in approval.proposal.destroys),
            expires_at=approval.expires_at,
        )
    )


def decide(store: Store, approval: Approval, *, approve: bool, by: str, reason: str) -> None:
    """Approved, the step is ready to apply the saved plan; rejected, the workflow ends. Raises Conflict when it was
    decided before."""
    state = ApprovalState.APPROVED if approve else ApprovalState.REJECTED
    with store.transaction(f"decide.{state.value}") as tx:
        if tx.run(DECIDE, state.value, tx.now, by, reason, approval.id) != 1:
            raise decided(get(store, approval.id))
        tx.event(
            ApprovalDecided(
                workflow=approval.workflow,
                workspace=approval.workspace,
                approval=approval.id,
                approved=approve,
                by=by,
                reason=reason,
            )
        )
        step = _step(store, approval)
        if approve:
            steps.move(tx, step, StepState.READY)
            tx.run(ANEW, approval.workflow, step.name)
        else:
            why = f"rejected{f' by {by}' if by else ''}{f': {reason}' if reason else ''}"
            _end(tx, step, why)


def void(store: Store, approval: Approval, reason: str) -> None:
    """Nobody can decide it any more; its workflow ends."""
    with store.transaction("void") as tx:
        if tx.run(DECIDE, ApprovalState.VOID.value, tx.now, "", reason, approval.id) == 1:
            _voided(tx, approval, reason)
            _end(tx, _step(store, approval), f"{approval.id} is void: {reason}")


def moved_on(tx: Transaction, workspace: str, workflow: str) -> None:
    """The state of the workspace is another one now: what was planned on the old one can't be applied."""
    for row in tx.rows(OPEN_OF, None, workspace, None):
        approval = rows.approval(row)
        reason = f"{workflow} changed the state of workspace {workspace} since it was planned"
        tx.run(DECIDE, ApprovalState.VOID.value, tx.now, "", reason, approval.id)
        _voided(tx, approval, reason)
        step = rows.step(tx.rows(steps.ONE, approval.workflow, approval.step)[0])
        _end(tx, step, f"{approval.id} is void: {reason}")


def withdraw(tx: Transaction, workflow: str, reason: str) -> None:
    """The workflow ends for a reason of its own."""
    for row in tx.rows(OPEN_OF, workflow, None, None):
        approval = rows.approval(row)
        tx.run(DECIDE, ApprovalState.VOID.value, tx.now, "", reason, approval.id)
        _voided(tx, approval, reason)


def get(store: Store, id: str) -> Approval:
    """By exact id; raises NotFound."""
    row = store.row(ONE, id)
    if row is None:
        raise NotFound(f"no approval {id!r}", hint="see `exocomp approval list`")
    return rows.approval(row)


def find(store: Store, wanted: str) -> Approval:
    """By id, or unique prefix (with or without ap_) or suffix of one; raises NotFound or Conflict."""
    if not re.fullmatch(r"[0-9a-z_]{2,32}", wanted):
        raise NotFound(f"{wanted!r} is not an approval id", hint="ids look like ap_…; see `exocomp approval list`")
    found = [id for (id,) in store.rows(MATCHING, wanted)]
    if wanted in found or len(found) == 1:
        return get(store, wanted if wanted in found else found[0])
    if found:
        raise Conflict(f"{wanted!r} fits more than one approval: {', '.join(found)}, …", hint="give more characters")
    return get(store, wanted)


def every(
    store: Store, *, state: ApprovalState | None = None, workflow: str | None = None, limit: int = 50
) -> tuple[Approval, ...]:
    """Newest first."""
    return tuple(map(rows.approval, store.rows(LIST, state and state.value, workflow, limit)))


def latest(store: Store, workflow: str) -> Approval | None:
    """The approval under which the workflow runs, applied or not."""
    row = store.row(APPLIED, workflow)
    return rows.approval(row) if row else None


def expired(store: Store) -> tuple[Approval, ...]:
    """Open ones whose time is up."""
    return tuple(map(rows.approval, store.rows(OPEN_OF, None, None, store.now())))


def next_expiry(store: Store) -> float | None:
    row = store.row(NEXT_EXPIRY)
    return row[0] if row else None


def kept_plans(store: Store) -> frozenset[Path]:
    """The saved plans that may still be applied."""
    return frozenset(Path(path) for (path,) in store.rows(KEPT))


def decided(approval: Approval) -> Conflict:
    """Why it cannot be decided."""
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    why = f": {approval.reason}" if approval.reason else ""
    what = "is void" if approval.state is ApprovalState.VOID else f"was {approval.state.value}{by}"
    hint = "the first decision stands"
    if approval.state is not ApprovalState.APPROVED:
        hint = f"plan anew and ask again: exocomp provision retry {approval.workflow}"
    return Conflict(f"{approval.id} {what}{why}", hint=hint)


def _voided(tx: Transaction, approval: Approval, reason: str) -> None:
    tx.event(
        ApprovalVoided(workflow=approval.workflow, workspace=approval.workspace, approval=approval.id, reason=reason)
    )


def _end(tx: Transaction, step: StepRow, why: str) -> None:
    """A step that waited is cancelled, and its workflow with it."""
    steps.move(tx, step, StepState.CANCELLED, reason=why)
    for row in tx.rows(steps.OF, step.workflow):
        later = rows.step(row)
        if later.position > step.position and later.state is StepState.BLOCKED:
            steps.move(tx, later, StepState.CANCELLED, reason=f"{step.stage} was not applied")
    hint = f"plan anew and ask again: exocomp provision retry {step.workflow}"
    steps.end_workflow(tx, step.workflow, RunState.CANCELLED, f"{step.stage}: {why}", hint)


def _step(store: Store, approval: Approval) -> StepRow:
    return next(row for row in steps.of(store, approval.workflow) if row.name == approval.step)
