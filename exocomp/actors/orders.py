"""What the sequencer does with each order of a person: check it, record it, answer."""

from __future__ import annotations

import re

from exocomp import schedule as cron
from exocomp.actors.admission import Admission
from exocomp.errors import Conflict, WrongUsage
from exocomp.model import Pin, Schedule, StepState, Trust
from exocomp.protocol import commands as c
from exocomp.protocol.mail import Begin, TakeInventory
from exocomp.ssh.keys import fingerprint, host_key
from exocomp.store import inventories, pins, rules, schedules, steps, workflows, workspaces
from exocomp.store.store import Store
from exocomp.workflows import chains

_NAME = re.compile(r"[a-z0-9_.:%-]+|\[[a-z0-9_.:%-]+\]:[0-9]{1,5}")

Order = (
    Begin
    | c.CancelWorkflow
    | c.RetryWorkflow
    | c.AddWorkspace
    | c.RemoveWorkspace
    | TakeInventory
    | c.RemoveInventory
    | c.AddSchedule
    | c.RemoveSchedule
    | c.PauseSchedule
    | c.ResumeSchedule
    | c.AddRule
    | c.RemoveRule
    | c.EnableRule
    | c.DisableRule
    | c.PinHost
    | c.ForgetHost
)


def carry_out(store: Store, admission: Admission, order: Order) -> c.AnyReply:
    """Record the order; what was answered is on disk. Raises ExocompError before anything changed."""
    match order:
        case Begin(order=wanted, by=by):
            return start(store, admission, wanted, by=by)
        case c.CancelWorkflow(id=id):
            workflow = workflows.find(store, id)
            workflows.cancel(store, workflow)
            return c.Done(message=f"{workflow.id} is being cancelled")
        case c.RetryWorkflow():
            return retry(store, order)
        case c.AddWorkspace(workspace=workspace):
            workspaces.add(store, workspace)
            return c.Done(message=f"workspace {workspace.name} registered")
        case c.RemoveWorkspace(name=name, force=force):
            workspaces.remove(store, name, force=force)
            return c.Done(message=f"workspace {name} removed")
        case TakeInventory():
            return take(store, admission, order)
        case c.RemoveInventory(name=name, force=force):
            inventories.remove(store, name, force=force)
            return c.Done(message=f"inventory {name} removed")
        case c.AddSchedule() | c.RemoveSchedule() | c.PauseSchedule() | c.ResumeSchedule():
            return plan(store, order)
        case c.AddRule() | c.RemoveRule() | c.EnableRule() | c.DisableRule():
            return rule(store, order)
        case c.PinHost():
            return pin(store, order)
        case c.ForgetHost(name=name):
            pins.forget(store, name)
            return c.Done(message=f"host key of {name} forgotten")


def start(
    store: Store, admission: Admission, order: c.StartWorkflow, generation: int | None = None, *, by: str = ""
) -> c.Started:
    workflow = admission.admit(order, requester=by)
    steps_of = [(step.name, step.stage) for step in chains.chain(workflow.kind)]
    workflows.begin(store, workflow, steps_of, generation)
    return c.Started(workflow=workflow.id)


def take(store: Store, admission: Admission, order: TakeInventory) -> c.Done:
    got = order.captured
    standing = admission.publish(got)
    number, changed = inventories.take(store, got, str(standing))
    what = f"inventory {got.inventory} generation {number} names {len(got.hosts)} host(s)"
    return c.Done(message=f"{what}{'' if changed else ', as before'}{order.told}")


def plan(store: Store, order: c.AddSchedule | c.RemoveSchedule | c.PauseSchedule | c.ResumeSchedule) -> c.AnyReply:
    match order:
        case c.AddSchedule(schedule=wanted):
            times = fires_of(wanted, store.now())
            schedules.add(store, wanted, times[0])
            return c.Planned(name=wanted.name, fires_at=times)
        case c.ResumeSchedule(name=name):
            times = fires_of(schedules.get(store, name), store.now())
            schedules.resume(store, name, times[0])
            return c.Planned(name=name, fires_at=times)
        case c.PauseSchedule(name=name):
            schedules.pause(store, name)
            return c.Done(message=f"schedule {name} paused")
        case c.RemoveSchedule(name=name):
            schedules.remove(store, name)
            return c.Done(message=f"schedule {name} removed")


def fires_of(schedule: Schedule, now: float) -> tuple[float, ...]:
    """Its next three times; raises WrongUsage when there are none."""
    times = cron.next_fires(cron.parse(schedule.cron, schedule.zone), now, 3)
    if not times:
        raise WrongUsage(f"{schedule.cron!r} in {schedule.zone} never comes again")
    return times


def rule(store: Store, order: c.AddRule | c.RemoveRule | c.EnableRule | c.DisableRule) -> c.Done:
    match order:
        case c.AddRule(rule=wanted):
            rules.add(store, wanted)
            return c.Done(message=f"rule {wanted.name} answers {wanted.on} from now on")
        case c.RemoveRule(name=name):
            rules.remove(store, name)
            return c.Done(message=f"rule {name} removed")
        case c.EnableRule(name=name):
            rules.enable(store, name)
            return c.Done(message=f"rule {name} enabled")
        case c.DisableRule(name=name):
            rules.disable(store, name)
            return c.Done(message=f"rule {name} disabled")


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
