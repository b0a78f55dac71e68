"""Events of schedules and rules."""

from __future__ import annotations

from exocomp.model import Outcome
from exocomp.protocol.event import Event


class ScheduleAdded(Event, frozen=True, kw_only=True, tag="schedule_added"):
    schedule: str
    cron: str
    zone: str
    target: str


class ScheduleRemoved(Event, frozen=True, kw_only=True, tag="schedule_removed"):
    schedule: str


class SchedulePaused(Event, frozen=True, kw_only=True, tag="schedule_paused"):
    schedule: str


class ScheduleResumed(Event, frozen=True, kw_only=True, tag="schedule_resumed"):
    schedule: str


class ScheduleFired(Event, frozen=True, kw_only=True, tag="schedule_fired"):
    """It started `workflow`, or queued it behind the running one of its key; `due_at` in Unix seconds."""

    schedule: str
    outcome: Outcome
    due_at: float | None = None


class ScheduleSkipped(Event, frozen=True, kw_only=True, tag="schedule_skipped"):
    """Nothing was enqueued: one runs and one waits already, or nobody was there to fire it in time."""

    schedule: str
    outcome: Outcome
    reason: str
    due_at: float | None = None


class ScheduleRefused(Event, frozen=True, kw_only=True, tag="schedule_refused"):
    """It failed closed: nothing was enqueued."""

    schedule: str
    reason: str
    hint: str = ""
    target: str = ""
    due_at: float | None = None


class RuleAdded(Event, frozen=True, kw_only=True, tag="rule_added"):
    rule: str
    on: str
    target: str


class RuleRemoved(Event, frozen=True, kw_only=True, tag="rule_removed"):
    rule: str


class RuleEnabled(Event, frozen=True, kw_only=True, tag="rule_enabled"):
    rule: str


class RuleDisabled(Event, frozen=True, kw_only=True, tag="rule_disabled"):
    rule: str


class RuleFired(Event, frozen=True, kw_only=True, tag="rule_fired"):
    """It started `workflow` for the event numbered `event`, or queued it behind the running one of its key."""

    rule: str
    outcome: Outcome
    event: int


class RuleSkipped(Event, frozen=True, kw_only=True, tag="rule_skipped"):
    """It would have answered what it caused itself, or one runs and one waits already."""

    rule: str
    reason: str
    event: int


class RuleRefused(Event, frozen=True, kw_only=True, tag="rule_refused"):
    """It failed closed: nothing was enqueued."""

    rule: str
    reason: str
    event: int
    hint: str = ""
    target: str = ""
