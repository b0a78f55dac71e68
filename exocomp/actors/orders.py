"""What the sequencer does with each order of a person: check it, record it, answer."""

from __future__ import annotations

import re

from exocomp import ids
from exocomp.errors import Conflict, WrongUsage
from exocomp.model import Pin, RunState, StepState, Trust, Workflow
from exocomp.protocol import commands as c
from exocomp.ssh.keys import fingerprint, host_key
from exocomp.store import pins, steps, workflows, workspaces
from exocomp.store.store import Store
from exocomp.workflows import chains

_NAME = re.compile(r"[a-z0-9_.:%-]+|\[[a-z0-9_.:%-]+\]:[0-9]{1,5}")

Order = (
    c.StartWorkflow
    | c.CancelWorkflow
    | c.RetryWorkflow
    | c.AddWorkspace
    | c.RemoveWorkspace
    | c.PinHost
    | c.ForgetHost
)


def carry_out(store: Store, order: Order) -> c.AnyReply:
    """Record the order; what was answered is on disk. Raises ExocompError before anything changed."""
    match order:
        case c.StartWorkflow():
            return start(store, order)
        case c.CancelWorkflow(id=id):
            workflow = workflows.find(store, id)
            workflows.cancel(store, workflow)
            return c.Done(message=f"{workflow.id} is being cancelled")
        case c.RetryWorkflow():
            return retry(store, order)
        case c.AddWorkspace(workspace=workspace):
            workspaces.add(store, workspace)
            return c.Done(message=f"workspace {workspace.name} registered")
        case c.RemoveWorkspace(name=name):
            workspaces.remove(store, name)
            return c.Done(message=f"workspace {name} removed")
        case c.PinHost():
            return pin(store, order)
        case c.ForgetHost(name=name):
            pins.forget(store, name)
            return c.Done(message=f"host key of {name} forgotten")


def start(store: Store, order: c.StartWorkflow, generation: int | None = None) -> c.Started:
    chain = chains.chain(order.kind)
    workspaces.get(store, order.workspace)
    if (order.playbook is None) == (order.kind in chains.WITH_PLAYBOOK):
        raise WrongUsage(f"{order.kind} {'needs a' if order.playbook is None else 'takes no'} playbook")
    workflow = Workflow(
        id=ids.new("wf"),
        kind=order.kind,
        workspace=order.workspace,
        playbook=order.playbook,
        options=order.options,
        state=RunState.RUNNING,
        created_at=store.now(),
    )
    workflows.begin(store, workflow, [(step.name, step.stage) for step in chain], generation)
    return c.Started(workflow=workflow.id)


def retry(store: Store, order: c.RetryWorkflow) -> c.Started:
    workflow = workflows.find(store, order.id)
    rows = steps.of(store, workflow.id)
    unfinished = [row.name for row in rows if row.state is not StepState.SUCCEEDED]
    if order.from_step is not None:
        chains.step(workflow.kind, order.from_step)
        at = [row.name for row in rows].index(order.from_step)
        if any(row.state is not StepState.SUCCEEDED for row in rows[:at]):
            raise Conflict(
                f"{workflow.id} can't go on at {order.from_step}: {unfinished[0]} has not succeeded",
                hint=f"exocomp provision retry {workflow.id} --from {unfinished[0]}",
            )
    elif not unfinished:
        raise Conflict(f"{workflow.id} has succeeded", hint="name the step to run again with --from")
    if workflow.workspace is not None:
        workspaces.get(store, workflow.workspace)
    workflows.retry(store, workflow, order.from_step or unfinished[0])
    return c.Started(workflow=workflow.id)


def pin(store: Store, order: c.PinHost) -> c.Done:
    if not order.keys:
        raise WrongUsage(f"no key was given for {order.name}")
    if not _NAME.fullmatch(order.name):
        raise WrongUsage(f"{order.name!r} is no name that ssh looks a host key up by", hint="host or [host]:port")
    if bad := [key.key_type for key in order.keys if host_key(key.key_type, key.key) is None]:
        raise WrongUsage(f"what was given for {order.name} as a {bad[0]!r} key is none")
    known = {pin.key_type: pin.key for pin in pins.of(store, order.name)}
    if known and not order.rotate and not any(known.get(key.key_type) == key.key for key in order.keys):
        raise Conflict(f"{order.name} is pinned to other keys", hint="compare the fingerprints, then add --rotate")
    new = [
        Pin(
            name=order.name,
            key_type=key.key_type,
            key=key.key,
            fingerprint=fingerprint(key.key),
            trust=Trust.OPERATOR,
            pinned_at=store.now(),
        )
        for key in order.keys
    ]
    pins.pin(store, order.name, new, rotate=order.rotate)
    return c.Done(message=f"{order.name} pinned")
