"""Answers every query from the ledger: in the daemon, or read-only from outside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from exocomp.config import Layout
from exocomp.errors import ExocompError, NotFound
from exocomp.model import Fire, Generation, Outcome, Pin, Rule, Schedule, Work, Workflow, Workspace
from exocomp.protocol import approving as a
from exocomp.protocol import converging as v
from exocomp.protocol import queries as q
from exocomp.store import (
    approvals,
    events,
    fires,
    hosts,
    inventories,
    jobs,
    pins,
    rules,
    schedules,
    steps,
    targets,
    workflows,
    workspaces,
)
from exocomp.store.store import Store, open_reader


def ask(data_dir: Path, query: q.AnyQuery) -> q.AnyAnswer:
    """Answer from the store in `data_dir`, with or without a daemon; raises NotFound when there is none."""
    store = open_reader(Layout(data_dir).store)
    try:
        return answer(store, Layout(data_dir), query)
    finally:
        store.close()


def answer(store: Store, layout: Layout, query: q.AnyQuery) -> q.AnyAnswer:
    """One query's answer; raises NotFound or Conflict as the lookup does."""
    match query:
        case q.ListWorkspaces():
            return q.Workspaces(workspaces=tuple(_workspace(store, space) for space in workspaces.every(store)))
        case q.ShowWorkspace(name=name):
            return _workspace(store, workspaces.get(store, name))
        case q.ListWorkflows():
            found = workflows.every(
                store,
                query.kinds,
                workspace=query.workspace,
                inventory=query.inventory,
                origin=query.origin,
                limit=query.limit,
            )
            return q.Workflows(workflows=tuple(_workflow(store, workflow) for workflow in found))
        case q.ShowWorkflow(id=id, kinds=kinds):
            return _workflow(store, workflows.find(store, id, kinds))
        case q.ListJobs(workflow=workflow, limit=limit):
            of = workflows.find(store, workflow).id if workflow else None
            return q.Jobs(jobs=jobs.every(store, of, limit))
        case q.ShowJob(id=id):
            job = jobs.find(store, id)
            return q.JobView(
                job=job,
                attempts=jobs.attempts(store, job.id),
                hosts=jobs.hosts(store, job.id),
                directory=str(layout.attempt(job.id, job.attempt)),
            )
        case a.ListApprovals(state=state, workflow=workflow, limit=limit):
            of = workflows.find(store, workflow).id if workflow else None
            return a.Approvals(approvals=approvals.every(store, state=state, workflow=of, limit=limit))
        case a.ShowApproval(id=id):
            return a.ApprovalView(approval=approvals.find(store, id))
        case q.ListInventories():
            return q.Inventories(inventories=tuple(_inventory(store, name) for name, _ in inventories.names(store)))
        case q.ShowInventory(name=name, generation=generation):
            return _inventory(store, name, generation)
        case v.ListSchedules():
            return v.Schedules(schedules=tuple(_schedule(store, each) for each in schedules.every(store)))
        case v.ShowSchedule(name=name):
            return _schedule(store, schedules.get(store, name))
        case v.ListRules():
            return v.Rules(rules=tuple(_rule(store, each) for each in rules.every(store)))
        case v.ShowRule(name=name):
            return _rule(store, rules.get(store, name))
        case v.ListFires(source=source, name=name, limit=limit):
            (schedules if source == "schedule" else rules).get(store, name)
            return v.Fires(fires=fires.of(store, source, name, limit))
        case v.ListHosts(inventory=inventory):
            return v.Hosts(hosts=hosts.every(store, inventory))
        case v.ShowHost(host=host):
            return v.Hosts(hosts=hosts.named(store, host))
        case q.ListPins(host=host):
            return q.Pins(pins=pins.every(store) if host is None else _pins_of(store, host))
        case q.ListEvents():
            since = query.since if query.since_at is None else events.last_before(store, query.since_at)
            found_events = events.after(
                store, since, workflow=query.workflow, workspace=query.workspace, limit=query.limit
            )
            return q.Events(events=found_events)


def _workspace(store: Store, space: Workspace) -> q.WorkspaceView:
    current = inventories.find(store, f"tf:{space.name}")
    return q.WorkspaceView(
        workspace=space,
        hosts=len(current.hosts) if current else None,
        generation=current.number if current else None,
        last_apply=workflows.last_apply(store, space.name),
    )


def _workflow(store: Store, workflow: Workflow) -> q.WorkflowView:
    views = tuple(
        q.StepView(
            step=step,
            attempts=jobs.tries(store, workflow.id, step.name),
            hosts=jobs.hosts(store, step.job) if step.job else (),
            tier=jobs.tier(store, step.job) if step.job else None,
        )
        for step in steps.of(store, workflow.id)
    )
    return q.WorkflowView(workflow=workflow, steps=views, generation=workflows.generation_of(store, workflow.id))


def _inventory(store: Store, name: str, generation: int | None = None) -> q.InventoryView:
    standing = inventories.standing(store, name)
    current = inventories.get(store, name)
    shown = current if generation is None else inventories.get(store, name, generation)
    return q.InventoryView(
        name=name,
        file=standing,
        current=shown,
        generations=inventories.numbers(store, name),
        sound=_unsound(standing, current) is None,
    )


def _schedule(store: Store, schedule: Schedule) -> v.ScheduleView:
    last = next(iter(fires.of(store, "schedule", schedule.name, 1)), None)
    reason, hint = _standing_still(store, schedule.work, last)
    return v.ScheduleView(schedule=schedule, last=last, fails_closed=reason, hint=hint)


def _rule(store: Store, rule: Rule) -> v.RuleView:
    last = next(iter(fires.of(store, "rule", rule.name, 1)), None)
    reason, hint = _standing_still(store, rule.work, last)
    return v.RuleView(rule=rule, last=last, fails_closed=reason, hint=hint)


def _standing_still(store: Store, work: Work, last: Fire | None) -> tuple[str, str]:
    """(why, what to do) when the latest fire was refused, or the next one would be for what the ledger knows."""
    if last is not None and last.outcome is Outcome.REFUSED:
        return last.reason, last.hint
    try:
        if work.kind == "play":
            current = targets.resolve(store, work.target)
            file = _unsound(inventories.standing(store, work.target), current)
            if file is not None:
                space = targets.workspace_of(store, work.target)
                anew = f"workspace apply {space}" if space else f"inventory add {work.target} <file>"
                return (
                    f"the file of inventory {work.target} is altered or lost: {file}",
                    f"write it anew: exocomp {anew}",
                )
        else:
            workspaces.get(store, work.target)
    except ExocompError as refusal:
        return refusal.what, refusal.hint
    return "", ""


def _unsound(standing: str, current: Generation) -> str | None:
    """The file of the two of an inventory that is not what the ledger knows."""
    return next((file for file in (standing, current.path) if _digest(Path(file)) != current.digest), None)


def _digest(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def _pins_of(store: Store, host: str) -> tuple[Pin, ...]:
    """By known_hosts name, by address on any port, or by the name of a host in a standing inventory."""
    wanted = host.lower()
    addresses = {wanted}
    for name, _ in inventories.names(store):
        for each in inventories.get(store, name).hosts:
            if each.name == host:
                addresses.add(each.address.lower())
    found = tuple(
        pin
        for pin in pins.every(store)
        if pin.name in addresses or pin.name.rpartition("]:")[0].lstrip("[") in addresses
    )
    if not found:
        raise NotFound(f"no host key is recorded for {host!r}", hint="see `exocomp host known-hosts list`")
    return found
