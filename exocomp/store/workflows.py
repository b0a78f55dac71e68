"""Workflows: begin, cancel, retry, and how they are looked up."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from exocomp.errors import Conflict, NotFound
from exocomp.model import ENDED, RunState, StepState, Workflow
from exocomp.protocol.events import CancelRequested, HostAnswered, WorkflowRetried, WorkflowStarted
from exocomp.protocol.mail import Answered
from exocomp.protocol.queries import HostResult
from exocomp.store import approvals, rows, steps
from exocomp.store.store import Store, Transaction

ADD = """
INSERT INTO workflow (id, kind, workspace, playbook, options, state, created_at, generation, inventory, key, origin,
  requester)
VALUES (?, ?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ?)
"""
ADD_STEP = "INSERT INTO step (workflow, position, name, stage, state) VALUES (?, ?, ?, ?, ?)"
ONE = f"SELECT {rows.WORKFLOW} FROM workflow WHERE id = ?"
MATCHING = """
SELECT id FROM workflow WHERE (substr(id, 1, length(?1)) = ?1 OR substr(id, -length(?1)) = ?1
  OR substr(id, 4, length(?1)) = ?1) AND (?2 = '' OR instr(?2, '|' || kind || '|')) LIMIT 3
"""
LATEST = "SELECT id FROM workflow WHERE ?1 = '' OR instr(?1, '|' || kind || '|') ORDER BY rowid DESC LIMIT 1"
LIST = f"""
SELECT {rows.WORKFLOW} FROM workflow
WHERE (?1 = '' OR instr(?1, '|' || kind || '|')) AND (?2 IS NULL OR workspace = ?2)
  AND (?3 IS NULL OR inventory = ?3) AND (?4 IS NULL OR origin = ?4)
ORDER BY rowid DESC LIMIT ?5
"""
OF_KEY = f"SELECT {rows.WORKFLOW} FROM workflow WHERE key = ? AND state = 'running' ORDER BY rowid"
ROTATIONS = f"""
SELECT {rows.WORKFLOW} FROM workflow
WHERE kind = 'rotate' AND workspace = ? AND json_extract(options, '$.fleet_key') = ? ORDER BY rowid
"""
LAST_APPLY = f"""
SELECT {rows.WORKFLOW} FROM workflow w WHERE workspace = ?
AND EXISTS (SELECT 1 FROM step WHERE workflow = w.id AND name = 'apply' AND started_at IS NOT NULL)
ORDER BY rowid DESC LIMIT 1
"""
GENERATION = "SELECT generation FROM workflow WHERE id = ?"
CANCELLING = "SELECT cancelling FROM workflow WHERE id = ?"
CANCEL = "UPDATE workflow SET cancelling = 1 WHERE id = ? AND state = 'running' AND cancelling = 0"
REOPEN = """
UPDATE workflow SET state = 'running', cancelling = 0, ended_at = NULL, reason = '', hint = '',
  generation = coalesce((SELECT number FROM inventory WHERE name = workflow.inventory), generation)
WHERE id = ? AND state != 'running'
"""
FRESH = """
UPDATE step SET job = NULL, started_at = NULL, ended_at = NULL, reason = '', hint = ''
WHERE workflow = ? AND name = ?
"""


def begin(store: Store, workflow: Workflow, chain: Sequence[tuple[str, str]], generation: int | None = None) -> None:
    """Record a workflow and its (name, stage) rows, the first one ready; `generation` binds it to an inventory's."""
    with store.transaction("begin") as tx:
        add(tx, workflow, chain, generation)


def add(tx: Transaction, workflow: Workflow, chain: Sequence[tuple[str, str]], generation: int | None = None) -> None:
    """As `begin`, in a transaction that records more."""
    options = msgspec.json.encode(workflow.options).decode()
    what = (workflow.id, workflow.kind, workflow.workspace, workflow.playbook, options)
    tx.run(ADD, *what, tx.now, generation, workflow.inventory, workflow.key, workflow.origin, workflow.requester)
    for position, (name, stage) in enumerate(chain):
        state = StepState.READY if position == 0 else StepState.BLOCKED
        tx.run(ADD_STEP, workflow.id, position, name, stage, state.value)
    tx.event(
        WorkflowStarted(
            workflow=workflow.id,
            workspace=workflow.workspace,
            kind=workflow.kind,
            steps=tuple(name for name, _ in chain),
            playbook=workflow.playbook,
            inventory=workflow.inventory,
            origin=workflow.origin,
        )
    )


def cancel(store: Store, workflow: Workflow) -> None:
    """Cancel every step that is not running; the workflow ends when no step runs. Raises Conflict if it has ended."""
    with store.transaction("cancel") as tx:
        if tx.run(CANCEL, workflow.id) != 1:
            if workflow.state is RunState.RUNNING:
                return
            raise Conflict(
                f"{workflow.id} has already {workflow.state}", hint=f"exocomp provision status {workflow.id}"
            )
        tx.event(CancelRequested(workflow=workflow.id, workspace=workflow.workspace))
        approvals.withdraw(tx, workflow.id, "its workflow was cancelled")
        rows_of = steps.of(store, workflow.id)
        for step in rows_of:
            if step.state not in ENDED and step.state is not StepState.RUNNING:
                steps.withdraw(tx, step, "cancelled before it started")
        if not any(step.state is StepState.RUNNING for step in rows_of):
            steps.end_workflow(tx, workflow.id, RunState.CANCELLED, "cancelled by the operator")


def retry(store: Store, workflow: Workflow, from_step: str) -> None:
    """Make `from_step` ready and all later steps blocked, over the inventory as it stands now."""
    with store.transaction("retry") as tx:
        if workflow.key and (others := of_key(tx, workflow.key)) and workflow.state is not RunState.RUNNING:
            raise Conflict(
                f"{others[0].id} runs with the concurrency key {workflow.key!r} of {workflow.id}",
                hint=f"retry when it has ended: exocomp provision watch {others[0].id}",
            )
        if tx.run(REOPEN, workflow.id) != 1:
            raise Conflict(f"{workflow.id} is still running", hint=f"exocomp provision watch {workflow.id}")
        tx.event(WorkflowRetried(workflow=workflow.id, workspace=workflow.workspace, from_step=from_step))
        reached = False
        for step in steps.of(store, workflow.id):
            first = step.name == from_step
            reached = reached or first
            new = StepState.READY if first else StepState.BLOCKED
            if reached and step.state is not new:
                steps.move(tx, step, new)
            if reached:
                tx.run(FRESH, workflow.id, step.name)


def answered(store: Store, workflow: Workflow, mail: Answered) -> None:
    """A host answered on SSH while its step still waits for others."""
    host = mail.host
    with store.transaction("answered") as tx:
        where = f"{host.address}:{host.port} after {mail.after_s:.1f}s"
        steps.put_hosts(tx, mail.job, (HostResult(host=host.name, outcome="answered", detail=where),))
        tx.event(
            HostAnswered(
                workflow=workflow.id,
                workspace=workflow.workspace,
                host=host.name,
                address=host.address,
                port=host.port,
                after_s=round(mail.after_s, 3),
                banner=mail.banner,
            )
        )


def get(store: Store, id: str) -> Workflow:
    """By exact id; raises NotFound."""
    row = store.row(ONE, id)
    if row is None:
        raise NotFound(f"no workflow {id!r}", hint="see `exocomp provision list`")
    return rows.workflow(row)


def find(store: Store, wanted: str, kinds: Sequence[str] = ()) -> Workflow:
    """By id, unique prefix (with or without wf_), unique suffix, or "latest"; raises NotFound or Conflict."""
    of_kinds = _joined(kinds)
    if wanted == "latest":
        row = store.row(LATEST, of_kinds)
        if row is None:
            raise NotFound("no workflow has run yet", hint="start one: exocomp provision run <workspace> <playbook>")
        return get(store, row[0])
    if not re.fullmatch(r"[0-9a-z_]{2,32}", wanted):
        raise NotFound(f"{wanted!r} is not a workflow id", hint="ids look like wf_…; see `exocomp provision list`")
    found = [id for (id,) in store.rows(MATCHING, wanted, of_kinds)]
    if wanted in found or len(found) == 1:
        return get(store, wanted if wanted in found else found[0])
    if found:
        raise Conflict(f"{wanted!r} fits more than one workflow: {', '.join(found)}, …", hint="give more characters")
    return get(store, wanted)


def every(
    store: Store,
    kinds: Sequence[str] = (),
    *,
    workspace: str | None = None,
    inventory: str | None = None,
    origin: str | None = None,
    limit: int = 50,
) -> tuple[Workflow, ...]:
    """Newest first."""
    return tuple(map(rows.workflow, store.rows(LIST, _joined(kinds), workspace, inventory, origin, limit)))


def of_key(at: Store | Transaction, key: str) -> tuple[Workflow, ...]:
    """Those with this concurrency key that have not ended, oldest first: the first may go on, the others wait."""
    return tuple(map(rows.workflow, at.rows(OF_KEY, key)))


def rotations(store: Store, workspace: str, fingerprint: str) -> tuple[Workflow, ...]:
    """Of this workspace to the fleet key with this fingerprint, oldest first."""
    return tuple(map(rows.workflow, store.rows(ROTATIONS, workspace, fingerprint)))


def last_apply(store: Store, workspace: str) -> Workflow | None:
    row = store.row(LAST_APPLY, workspace)
    return rows.workflow(row) if row else None


def generation_of(store: Store, id: str) -> int | None:
    row = store.row(GENERATION, id)
    return row[0] if row else None


def is_cancelling(store: Store, id: str) -> bool:
    row = store.row(CANCELLING, id)
    return bool(row and row[0])


def _joined(kinds: Sequence[str]) -> str:
    return f"|{'|'.join(kinds)}|" if kinds else ""
