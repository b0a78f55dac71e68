"""Schedules, rules and their fires as text; pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from exocomp.cli.render import clean, facts, moment, paint, table
from exocomp.cli.views import why
from exocomp.model import Fire, Outcome, RunOptions, Work
from exocomp.protocol.commands import Planned
from exocomp.protocol.converging import RuleView, ScheduleView

FAILS_CLOSED = "fails closed"
ROW_COLORS = {FAILS_CLOSED: "red", "paused": "dim", "disabled": "dim"}
OUTCOME_COLORS: dict[str, str] = {
    Outcome.STARTED: "green",
    Outcome.QUEUED: "cyan",
    Outcome.SKIPPED: "yellow",
    Outcome.REFUSED: "red",
    Outcome.MISSED: "yellow",
}


def planned(reply: Planned, zone: str) -> str:
    """What stands to come, as `schedule add` says it."""
    if not reply.fires_at:
        return f"{clean(reply.name)} never fires again"
    return f"{clean(reply.name)} fires next at\n" + times(reply.fires_at, zone)


def times(fires_at: Sequence[float], zone: str) -> str:
    return "\n".join(moment(at, zone_of(zone)) for at in fires_at)


def zone_of(name: str) -> tzinfo | None:
    """None, which is local time, for a zone that this machine does not know."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def schedule_rows(views: Sequence[ScheduleView], *, width: int | None, color: bool) -> str:
    rows = [
        (
            view.schedule.name,
            view.schedule.cron,
            view.schedule.zone,
            _target(view.schedule.work),
            _next(view),
            _last(view.last, zone_of(view.schedule.zone)),
            _schedule_state(view),
        )
        for view in views
    ]
    head = ("NAME", "CRON", "ZONE", "TARGET", "NEXT", "LAST", "STATE")
    return _with_reasons(head, rows, views, width=width, color=color)


def rule_rows(views: Sequence[RuleView], *, width: int | None, color: bool) -> str:
    rows = [
        (
            view.rule.name,
            " ".join((view.rule.on, *_matches(view))),
            _target(view.rule.work),
            _last(view.last, None),
            _rule_state(view),
        )
        for view in views
    ]
    return _with_reasons(("NAME", "ON", "TARGET", "LAST", "STATE"), rows, views, width=width, color=color)


def _with_reasons(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    views: Sequence[ScheduleView | RuleView],
    *,
    width: int | None,
    color: bool,
) -> str:
    """Each row in the colour of its state, its last cell; below one that fails closed, why and what to do."""
    title, *lines = table(head, rows, width=width, color=color, colored="").splitlines()
    out = [title]
    for view, row, line in zip(views, rows, lines, strict=True):
        out.append(paint(line, ROW_COLORS.get(row[-1]), color))
        if row[-1] == FAILS_CLOSED:
            out += [f"    {each}" for each in why(view.fails_closed, view.hint, color)]
    return "\n".join(out)


def _schedule_state(view: ScheduleView) -> str:
    return "paused" if view.schedule.paused else FAILS_CLOSED if view.fails_closed else "active"


def _rule_state(view: RuleView) -> str:
    return "disabled" if not view.rule.enabled else FAILS_CLOSED if view.fails_closed else "active"


def _target(work: Work) -> str:
    return f"{work.kind} {work.target}"


def _next(view: ScheduleView) -> str:
    at = view.schedule.next_at
    return "" if at is None else moment(at, zone_of(view.schedule.zone))


def _last(fire: Fire | None, zone: tzinfo | None) -> str:
    return "" if fire is None else f"{fire.outcome} {moment(fire.at, zone)}"


def _matches(view: RuleView) -> list[str]:
    return [f"{field}={text}" for field, text in view.rule.match.items()]


def schedule(view: ScheduleView, *, color: bool) -> str:
    one = view.schedule
    zone = zone_of(one.zone)
    return facts(
        [
            ("name", one.name),
            ("cron", one.cron),
            ("zone", one.zone),
            ("state", _schedule_state(view)),
            ("next", _next(view)),
            ("catch up", one.catch_up),
            *_work(one.work),
            ("since", moment(one.created_at, zone)),
            *_last_facts(view.last, zone),
        ]
    ) + _below(view, color)


def rule(view: RuleView, *, color: bool) -> str:
    one = view.rule
    return facts(
        [
            ("name", one.name),
            ("on", one.on),
            *(("match", each) for each in _matches(view)),
            ("state", _rule_state(view)),
            *_work(one.work),
            ("since", moment(one.created_at)),
            *_last_facts(view.last, None),
        ]
    ) + _below(view, color)


def _below(view: ScheduleView | RuleView, color: bool) -> str:
    if not view.fails_closed:
        return ""
    return "\n" + "\n".join(["", *why(view.fails_closed, view.hint, color)])


def _work(work: Work) -> list[tuple[str, str]]:
    return [
        ("starts", work.kind),
        ("inventory" if work.kind == "play" else "workspace", work.target),
        ("playbook", work.playbook or ""),
        ("flags", flags(work.options)),
        ("key", work.key or ""),
    ]


def flags(options: RunOptions) -> str:
    """The flags of a play as they are typed; of extra variables only the names, for values may be secret."""
    words: list[str] = []
    for name, value in (("limit", options.limit), ("tags", options.tags), ("skip-tags", options.skip_tags)):
        words += [] if value is None else [f"--{name}", shlex.quote(value)]
    words += ["--allow-destroy"] if options.allow_destroy else []
    words += ["--check"] if options.check else []
    words += ["--diff"] if options.diff else []
    words += [f"--extra-vars ({', '.join(options.extra_vars)})"] if options.extra_vars else []
    words += [f"--ssh-identity {shlex.quote(path)}" for path in options.ssh_identities]
    words += [f"--egress {port}" for port in options.egress]
    return " ".join(words)


def _last_facts(fire: Fire | None, zone: tzinfo | None) -> list[tuple[str, str]]:
    if fire is None:
        return [("last", "never fired")]
    return [
        ("last", f"{fire.outcome} {moment(fire.at, zone)}"),
        ("due", "" if fire.due_at is None else moment(fire.due_at, zone)),
        ("event", "" if fire.event is None else str(fire.event)),
        ("workflow", fire.workflow or ""),
        ("reason", "" if fire.outcome is Outcome.REFUSED else fire.reason),
    ]


def fire_rows(fires: Sequence[Fire], *, zone: str | None = None, width: int | None, color: bool) -> str:
    """`zone` is the schedule's, None for a rule, whose fires have an event and no time when they are due."""
    within = None if zone is None else zone_of(zone)
    rows = [
        (
            _cause(fire, within),
            moment(fire.at, within),
            fire.outcome,
            fire.workflow or "",
            fire.reason,
        )
        for fire in fires
    ]
    head = ("EVENT" if zone is None else "DUE", "AT", "OUTCOME", "WORKFLOW", "REASON")
    return table(
        head, rows, width=width, color=color, colored="OUTCOME", coloring=lambda cell: OUTCOME_COLORS.get(cell)
    )


def _cause(fire: Fire, zone: tzinfo | None) -> str:
    if fire.event is not None:
        return str(fire.event)
    return "by hand" if fire.due_at is None else moment(fire.due_at, zone)
