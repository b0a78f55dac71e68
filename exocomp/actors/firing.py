"""Fires of schedules and rules: the history, the next time and the workflow in one transaction."""

from __future__ import annotations

import logging

from exocomp.actors.admission import Admission
from exocomp.errors import Conflict, ExocompError
from exocomp.model import Fire, Outcome, Work, Workflow
from exocomp.protocol import commands as c
from exocomp.protocol.events import AnyEvent
from exocomp.protocol.fired import (
    RuleFired,
    RuleRefused,
    RuleSkipped,
    ScheduleFired,
    ScheduleRefused,
    ScheduleSkipped,
)
from exocomp.protocol.mail import FireRule, FireSchedule, Refusal, ReplanSchedule
from exocomp.store import fires, rules, schedules, workflows
from exocomp.store.store import Store, Transaction
from exocomp.workflows import chains

log = logging.getLogger(__name__)

STARTED = (Outcome.STARTED, Outcome.QUEUED)


class Firing:
    """Each fire is answered once: the ledger's next time, or the event's number, tells a repeated one."""

    def __init__(self, store: Store, admission: Admission) -> None:
        self._store = store
        self._admission = admission

    def schedule(self, mail: FireSchedule) -> Fire | None:
        """What became of a fire; None when it was answered already, or the schedule is paused meanwhile."""
        by_hand = mail.due_at is None
        with self._store.transaction("fire_schedule") as tx:
            if not by_hand and not schedules.plan(tx, mail.name, mail.planned_for, mail.next_at):
                return None
            work = schedules.get(tx, mail.name).work
            origin = f"schedule:{mail.name}"
            refused, workflow = None, None
            if mail.missed:
                outcome, reason = Outcome.MISSED, mail.missed
            else:
                refused, workflow = self._admit(work, mail.refused, work.key or origin, origin)
                outcome, reason = self._begin(tx, refused, workflow)
            fire = Fire(
                source="schedule",
                name=mail.name,
                at=tx.now,
                outcome=outcome,
                due_at=mail.due_at,
                workflow=workflow.id if workflow and outcome in STARTED else None,
                reason=reason,
                hint=refused.hint if refused else "",
            )
            fires.add(tx, fire)
            tx.event(_of_schedule(fire, work, workflow))
        _log(fire)
        return fire

    def by_hand(self, mail: FireSchedule) -> c.Started:
        """A fire beside the times; raises what it was refused or skipped for, once that is recorded."""
        fire = self.schedule(mail)
        assert fire is not None  # a paused one can be fired by hand, and no time answers for it
        if fire.workflow is None:
            kind = Conflict if fire.outcome is Outcome.SKIPPED else ExocompError
            raise kind(f"schedule {fire.name} started nothing: {fire.reason}", hint=fire.hint)
        return c.Started(workflow=fire.workflow)

    def rule(self, mail: FireRule) -> Fire | None:
        """What became of a rule's answer to an event; None when it has been given already, or the rule is gone."""
        with self._store.transaction("fire_rule") as tx:
            known = {rule.name for rule in rules.every(self._store) if rule.enabled}
            if mail.name not in known or fires.is_answered(tx, mail.name, mail.event):
                return None
            refused, workflow, reason = None, None, ""
            if mail.name in rules.behind(tx, mail.cause):
                outcome, reason = Outcome.SKIPPED, f"{mail.cause} was started by this rule itself, directly or not"
            else:
                refused, workflow = self._admit(mail.work, mail.refused, mail.work.key, f"rule:{mail.name}")
                outcome, reason = self._begin(tx, refused, workflow)
            fire = Fire(
                source="rule",
                name=mail.name,
                at=tx.now,
                outcome=outcome,
                event=mail.event,
                workflow=workflow.id if workflow and outcome in STARTED else None,
                reason=reason,
                hint=refused.hint if refused else "",
            )
            fires.add(tx, fire)
            tx.event(_of_rule(fire, mail.work, workflow))
        _log(fire)
        return fire

    def replan(self, mail: ReplanSchedule) -> None:
        with self._store.transaction("replan_schedule") as tx:
            schedules.plan(tx, mail.name, mail.planned_for, mail.next_at)

    def _admit(
        self, work: Work, refused: Refusal | None, key: str | None, origin: str
    ) -> tuple[Refusal | None, Workflow | None]:
        if refused is not None:
            return refused, None
        try:
            return None, self._admission.admit(order_of(work), key=key, origin=origin)
        except ExocompError as refusal:
            return Refusal(what=refusal.what, hint=refusal.hint), None

    def _begin(self, tx: Transaction, refused: Refusal | None, workflow: Workflow | None) -> tuple[Outcome, str]:
        if refused is not None or workflow is None:
            return Outcome.REFUSED, refused.what if refused else ""
        ahead = workflows.of_key(tx, workflow.key) if workflow.key else ()
        if len(ahead) > 1:
            return Outcome.SKIPPED, f"{ahead[0].id} runs and {ahead[-1].id} waits with the key {workflow.key}"
        workflows.add(tx, workflow, [(step.name, step.stage) for step in chains.chain(workflow.kind)])
        return (Outcome.QUEUED, f"behind {ahead[0].id}") if ahead else (Outcome.STARTED, "")


def order_of(work: Work) -> c.StartWorkflow:
    """The order that a person would give for it."""
    over = work.kind in chains.OVER_INVENTORY
    return c.StartWorkflow(
        kind=work.kind,
        workspace=None if over else work.target,
        inventory=work.target if over else None,
        playbook=work.playbook,
        options=work.options,
    )


def _of_schedule(fire: Fire, work: Work, workflow: Workflow | None) -> AnyEvent:
    name, due_at = fire.name, fire.due_at
    match fire.outcome:
        case Outcome.REFUSED:
            return ScheduleRefused(
                schedule=name, due_at=due_at, reason=fire.reason, hint=fire.hint, target=work.target
            )
        case Outcome.STARTED | Outcome.QUEUED:
            space = workflow.workspace if workflow else None
            return ScheduleFired(
                schedule=name, due_at=due_at, workflow=fire.workflow, workspace=space, outcome=fire.outcome
            )
    return ScheduleSkipped(schedule=name, due_at=due_at, outcome=fire.outcome, reason=fire.reason)


def _of_rule(fire: Fire, work: Work, workflow: Workflow | None) -> AnyEvent:
    name, event = fire.name, fire.event or 0
    match fire.outcome:
        case Outcome.REFUSED:
            return RuleRefused(rule=name, event=event, reason=fire.reason, hint=fire.hint, target=work.target)
        case Outcome.STARTED | Outcome.QUEUED:
            space = workflow.workspace if workflow else None
            return RuleFired(rule=name, event=event, workflow=fire.workflow, workspace=space, outcome=fire.outcome)
    return RuleSkipped(rule=name, event=event, reason=fire.reason)


def _log(fire: Fire) -> None:
    if fire.outcome not in STARTED:
        log.warning("%s %s started nothing (%s): %s", fire.source, fire.name, fire.outcome, fire.reason)
