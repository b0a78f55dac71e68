"""Rows of the tables as nouns of the model."""

from __future__ import annotations

from typing import Any

import msgspec

from exocomp.approval import Approval, ApprovalState, Proposal
from exocomp.model import (
    AttemptState,
    Generation,
    Host,
    Pin,
    RunOptions,
    RunState,
    StepRow,
    StepState,
    Tier,
    Trust,
    Workflow,
    Workspace,
)
from exocomp.protocol.events import AnyEvent, Recorded
from exocomp.protocol.jobs import Job, JobSpec
from exocomp.protocol.queries import AttemptView, HostResult

Row = tuple[Any, ...]

WORKFLOW = (
    "id, kind, workspace, playbook, options, state, created_at, ended_at, reason, hint, inventory, key, origin,"
    " requester"
)
STEP = "workflow, position, name, stage, state, job, started_at, ended_at, reason, hint"
JOB = "id, workflow, step, spec, key, state, attempt, created_at, ended_at, reason, hint"
ATTEMPT = "number, state, started_at, ended_at, exit_code, tier, source, git_commit"
HOST_RESULT = "host, outcome, detail, ok, changed, failed, unreachable"
GENERATION = "inventory, number, path, digest, hosts, created_at, workflow"
APPROVAL = (
    "id, workflow, workspace, step, proposal, digest, state, asked_at, expires_at, requester, decided_at, decided_by,"
    " reason, job"
)
PIN = "name, key_type, key, trust, pinned_at, fingerprint, workflow"

_options = msgspec.json.Decoder(RunOptions)
_spec = msgspec.json.Decoder(JobSpec)
_hosts = msgspec.json.Decoder(tuple[Host, ...])
_event = msgspec.json.Decoder(AnyEvent)
_proposal = msgspec.json.Decoder(Proposal)
_workspace = msgspec.json.Decoder(Workspace)


def workspace(row: Row) -> Workspace:
    return _workspace.decode(row[0])


def workflow(row: Row) -> Workflow:
    (id, kind, space, playbook, options, state, created_at, ended_at, reason, hint, *more) = row
    inventory, key, origin, requester = more
    return Workflow(
        id=id,
        kind=kind,
        workspace=space,
        playbook=playbook,
        options=_options.decode(options),
        state=RunState(state),
        created_at=created_at,
        ended_at=ended_at,
        reason=reason,
        hint=hint,
        inventory=inventory,
        key=key,
        origin=origin,
        requester=requester,
    )


def step(row: Row) -> StepRow:
    flow, position, name, stage, state, job_id, started_at, ended_at, reason, hint = row
    return StepRow(
        workflow=flow,
        position=position,
        name=name,
        stage=stage,
        state=StepState(state),
        job=job_id,
        started_at=started_at,
        ended_at=ended_at,
        reason=reason,
        hint=hint,
    )


def job(row: Row) -> Job:
    id, flow, step_name, spec, key, state, attempt_number, created_at, ended_at, reason, hint = row
    return Job(
        id=id,
        workflow=flow,
        step=step_name,
        spec=_spec.decode(spec),
        key=key,
        state=state,
        attempt=attempt_number,
        created_at=created_at,
        ended_at=ended_at,
        reason=reason,
        hint=hint,
    )


def attempt(row: Row) -> AttemptView:
    number, state, started_at, ended_at, exit_code, tier, source, commit = row
    return AttemptView(
        number=number,
        state=AttemptState(state),
        started_at=started_at,
        ended_at=ended_at,
        exit_code=exit_code,
        tier=None if tier is None else Tier(tier),
        source=source,
        commit=commit,
    )


def host_result(row: Row) -> HostResult:
    host, outcome, detail, ok, changed, failed, unreachable = row
    return HostResult(
        host=host, outcome=outcome, detail=detail, ok=ok, changed=changed, failed=failed, unreachable=unreachable
    )


def generation(row: Row) -> Generation:
    inventory, number, path, digest, hosts, created_at, flow = row
    return Generation(
        inventory=inventory,
        number=number,
        path=path,
        digest=digest,
        hosts=_hosts.decode(hosts),
        created_at=created_at,
        workflow=flow,
    )


def pin(row: Row) -> Pin:
    name, key_type, key, trust, pinned_at, fingerprint, flow = row
    return Pin(
        name=name,
        key_type=key_type,
        key=key,
        trust=Trust(trust),
        pinned_at=pinned_at,
        fingerprint=fingerprint,
        workflow=flow,
    )


def approval(row: Row) -> Approval:
    id, flow, space, step_name, proposal, digest, state, asked_at, expires_at, requester, *answer = row
    decided_at, decided_by, reason, job_id = answer
    return Approval(
        id=id,
        workflow=flow,
        workspace=space,
        step=step_name,
        proposal=_proposal.decode(proposal),
        digest=digest,
        state=ApprovalState(state),
        asked_at=asked_at,
        expires_at=expires_at,
        requester=requester,
        decided_at=decided_at,
        decided_by=decided_by,
        reason=reason,
        job=job_id,
    )


def recorded(row: Row) -> Recorded:
    seq, at, body = row
    return Recorded(seq=seq, at=at, event=_event.decode(body))
