"""Answers of the ledger as the tests of the command line seed them."""

from __future__ import annotations

from typing import Any

from exocomp.model import (
    AttemptState,
    Generation,
    Host,
    Pin,
    RunOptions,
    RunState,
    StepRow,
    StepState,
    Trust,
    Workflow,
    Workspace,
)
from exocomp.protocol import queries as q
from exocomp.protocol.jobs import Job, ProbeJob, TofuJob, Verb

AT = 1_700_000_000.0
WF = "wf_06f2k8x1q0abcd"
STEPS = (("apply", "apply"), ("wait", "wait"), ("pin", "onboard"), ("onboard", "onboard"), ("configure", "configure"))
SPACE = Workspace(name="edge", directory="/srv/edge", root="/srv/edge", variables={"region": "eu"}, created_at=AT)


def flow(state: RunState = RunState.RUNNING, **more: Any) -> Workflow:
    ended = None if state == RunState.RUNNING else AT + 90
    fields: dict[str, Any] = {
        "id": WF,
        "kind": "provision",
        "workspace": "edge",
        "playbook": "/srv/site.yml",
        "options": RunOptions(),
        "created_at": AT,
    }
    return Workflow(state=state, ended_at=ended, **(fields | more))


def ledger(
    *states: str,
    state: RunState = RunState.RUNNING,
    reasons: dict[str, str] | None = None,
    hosts: dict[str, tuple[q.HostResult, ...]] | None = None,
) -> q.WorkflowView:
    steps = []
    for position, ((name, stage), was) in enumerate(zip(STEPS, states, strict=True)):
        begun = was not in ("blocked", "ready")
        row = StepRow(
            workflow=WF,
            position=position,
            name=name,
            stage=stage,
            state=StepState(was),
            job=f"job_{name}" if begun else None,
            started_at=AT + position * 10 if begun else None,
            ended_at=AT + position * 10 + 7 if was in ("succeeded", "failed") else None,
            reason=(reasons or {}).get(name, ""),
            hint="look again" if name in (reasons or {}) else "",
        )
        steps.append(q.StepView(step=row, attempts=int(begun), hosts=(hosts or {}).get(name, ())))
    return q.WorkflowView(workflow=flow(state), steps=tuple(steps), generation=3)


ENDED = ledger(*["succeeded"] * 5, state=RunState.SUCCEEDED)
RUNNING = ledger("running", "blocked", "blocked", "blocked", "blocked")
HOST = Host(name="web1", address="203.0.113.5", port=2222, user="root")


def job_view(directory: str, *, kind: str = "tofu", name: str = "apply") -> q.JobView:
    spec = TofuJob(verb=Verb.APPLY, workspace=SPACE) if kind == "tofu" else ProbeJob(hosts=(HOST,), timeout_s=5.0)
    job = Job(
        id=f"job_{name}",
        workflow=WF,
        step=name,
        spec=spec,
        key="tf:edge",
        state="succeeded",
        attempt=1,
        created_at=AT,
        ended_at=AT + 5,
    )
    tries = (q.AttemptView(number=1, state=AttemptState.FINISHED, started_at=AT, ended_at=AT + 5, exit_code=0),)
    return q.JobView(
        job=job, attempts=tries, hosts=(q.HostResult(host="web1", outcome="ok", ok=2),), directory=directory
    )


def inventory(path: str, number: int = 2, hosts: tuple[Host, ...] = (HOST,)) -> q.InventoryView:
    current = Generation(inventory="tf:edge", number=number, path=path, digest="00", hosts=hosts, created_at=AT)
    return q.InventoryView(name="tf:edge", file="/d/edge.json", current=current, generations=(1, 2), sound=True)


PIN = Pin(
    name="[203.0.113.5]:2222",
    key_type="ssh-ed25519",
    key="AAAAC3NzaC1lZDI1NTE5AAAAIJ0c",
    trust=Trust.TOFU,
    pinned_at=AT,
    fingerprint="SHA256:abc",
)
