"""Queries and answers about what keeps the fleet converged: schedules, rules, their fires, and the hosts."""

from __future__ import annotations

from typing import Annotated

import msgspec

from exocomp.model import Fire, Host, Pin, Rule, Schedule

Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # what an INTEGER of SQLite and a file offset can hold


class ListSchedules(msgspec.Struct, frozen=True, kw_only=True, tag="list_schedules"):
    pass


class ShowSchedule(msgspec.Struct, frozen=True, kw_only=True, tag="show_schedule"):
    name: str


class ListRules(msgspec.Struct, frozen=True, kw_only=True, tag="list_rules"):
    pass


class ShowRule(msgspec.Struct, frozen=True, kw_only=True, tag="show_rule"):
    name: str


class ListFires(msgspec.Struct, frozen=True, kw_only=True, tag="list_fires"):
    """Newest first; `source` is schedule or rule."""

    source: str
    name: str
    limit: Whole = 50


class ListHosts(msgspec.Struct, frozen=True, kw_only=True, tag="list_hosts"):
    """Every host of the inventories' current generations, or of one inventory."""

    inventory: str | None = None


class ShowHost(msgspec.Struct, frozen=True, kw_only=True, tag="show_host"):
    """Every mention of this host name or address."""

    host: str


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True, tag="schedule"):
    """`last` is the latest fire; `fails_closed` says that it was refused, or why the next one would be."""

    schedule: Schedule
    last: Fire | None = None
    fails_closed: str = ""
    hint: str = ""


class Schedules(msgspec.Struct, frozen=True, kw_only=True, tag="schedules"):
    schedules: tuple[ScheduleView, ...]


class RuleView(msgspec.Struct, frozen=True, kw_only=True, tag="rule"):
    """As ScheduleView."""

    rule: Rule
    last: Fire | None = None
    fails_closed: str = ""
    hint: str = ""


class Rules(msgspec.Struct, frozen=True, kw_only=True, tag="rules"):
    rules: tuple[RuleView, ...]


class Fires(msgspec.Struct, frozen=True, kw_only=True, tag="fires"):
    fires: tuple[Fire, ...]


class HostView(msgspec.Struct, frozen=True, kw_only=True):
    """A host of a standing inventory, and what is known of it; times in Unix seconds, None for never.

    `converged_at` is the end of the last play that succeeded on it, not in check mode: `playbook` as it was named,
    `source` the digest of what ran. `unreachable` counts the plays since it was last reached; `shared_with` names
    the other inventories whose hosts have the same address and port.
    """

    inventory: str
    host: Host
    pins: tuple[Pin, ...] = ()
    onboarded_at: float | None = None
    onboarded_by: str | None = None  # the workflow
    converged_at: float | None = None
    converged_by: str | None = None  # the workflow
    playbook: str | None = None
    source: str | None = None
    changed_at: float | None = None
    unreachable: int = 0
    seen_at: float | None = None  # the end of the last play that reached for it
    shared_with: tuple[str, ...] = ()


class Hosts(msgspec.Struct, frozen=True, kw_only=True, tag="hosts"):
    hosts: tuple[HostView, ...]
