"""Triggers: which events a rule may answer by which name, and whether one fits it."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from exocomp.errors import ExocompError, WrongUsage
from exocomp.model import Rule, RunState, StepState, Work
from exocomp.protocol import events as e
from exocomp.protocol.event import Event
from exocomp.protocol.fired import ScheduleRefused, ScheduleSkipped

_HOST = "{host}"
_PLAIN = re.compile(r"[\w.-]+")


class Trigger(NamedTuple):
    """An event of this kind, and of those only the ones for which `when` holds."""

    kind: type[Event]
    when: Callable[[Any], bool] = lambda event: True


# Nothing that a rule's own refusal causes: it would answer itself for ever.
TRIGGERS: dict[str, Trigger] = {
    "workspace.applied": Trigger(e.OutputsCaptured, lambda event: event.verb == "apply"),
    "workspace.destroyed": Trigger(e.OutputsCaptured, lambda event: event.verb == "destroy"),
    "inventory.added": Trigger(e.InventoryAdded),
    "host.joined": Trigger(e.HostJoined),
    "host.left": Trigger(e.HostLeft),
    "host.pinned": Trigger(e.HostPinned),
    "host.key_refused": Trigger(e.HostKeyRefused),
    "job.failed": Trigger(e.StepMoved, lambda event: event.new is StepState.FAILED),
    "workflow.succeeded": Trigger(e.WorkflowEnded, lambda event: event.state is RunState.SUCCEEDED),
    "workflow.failed": Trigger(e.WorkflowEnded, lambda event: event.state is RunState.FAILED),
    "workflow.cancelled": Trigger(e.WorkflowEnded, lambda event: event.state is RunState.CANCELLED),
    "schedule.refused": Trigger(ScheduleRefused),
    "schedule.skipped": Trigger(ScheduleSkipped),
    "fleet_key.rotated": Trigger(e.FleetKeyRotated),
}


def check(on: str, match: dict[str, str], limit: str | None) -> None:
    """Raises WrongUsage for an event that no rule may answer, a field that it has not, or a limit without a host."""
    if on not in TRIGGERS:
        raise WrongUsage(f"--on {on!r} is no event that a rule answers", hint=f"one of {', '.join(TRIGGERS)}")
    fields = TRIGGERS[on].kind.__struct_fields__
    for name in match:
        if name not in fields:
            raise WrongUsage(f"--match {name}: {on} has no such field", hint=f"its fields: {', '.join(fields)}")
    if _HOST in (limit or "") and "host" not in fields:
        raise WrongUsage(f"--limit {limit!r}: {on} is of no host", hint="use it with host.joined or host.key_refused")


def fits(rule: Rule, event: Event) -> bool:
    """Whether the rule answers this event; a value fits a pattern as a file name does in a shell, case counts."""
    trigger = TRIGGERS.get(rule.on)
    if trigger is None or type(event) is not trigger.kind or not trigger.when(event):
        return False
    return all(_fits(getattr(event, name), pattern) for name, pattern in rule.match.items())


def work(rule: Rule, event: Event) -> Work:
    """What it starts for this event: `{host}` in its limit is the event's host.

    Raises ExocompError for a host name that ansible would read as a pattern.
    """
    limit = rule.work.options.limit
    if limit is None or _HOST not in limit:
        return rule.work
    host = getattr(event, "host", "")
    if not _PLAIN.fullmatch(host):
        raise ExocompError(
            f"host name {host!r} cannot stand in --limit {limit!r}", hint="rename the host, or drop {host}"
        )
    options = msgspec.structs.replace(rule.work.options, limit=limit.replace(_HOST, host))
    return msgspec.structs.replace(rule.work, options=options)


def _fits(value: Any, pattern: str) -> bool:
    if isinstance(value, tuple):
        return any(_fits(each, pattern) for each in value)
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return fnmatch.fnmatchcase(text, pattern)
