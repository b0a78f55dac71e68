"""Schedules, rules and hosts as the tests of the command line seed them."""

from __future__ import annotations

from typing import Any

from cli_views import AT, HOST, PIN, WF

from exocomp.model import Fire, Host, Outcome, Rule, RunOptions, Schedule, Work
from exocomp.protocol import converging as g

WORK = Work(kind="play", target="tf:edge", playbook="/srv/converge.yml", options=RunOptions(check=True), key="edge")
LOCAL = Host(name="here", address="here", connection="local")


def fire(outcome: Outcome = Outcome.STARTED, **more: Any) -> Fire:
    fields: dict[str, Any] = {"source": "schedule", "name": "nightly", "at": AT + 1, "due_at": AT}
    return Fire(outcome=outcome, workflow=WF if outcome == Outcome.STARTED else None, **(fields | more))


def schedule(**more: Any) -> Schedule:
    fields: dict[str, Any] = {
        "name": "nightly",
        "cron": "0 0 3 * * *",
        "zone": "Asia/Kolkata",
        "work": WORK,
        "created_at": AT,
        "next_at": AT + 3600,
    }
    return Schedule(**(fields | more))


def rule(**more: Any) -> Rule:
    fields: dict[str, Any] = {"name": "greet", "on": "host.joined", "match": {"host": "web*"}, "work": WORK}
    return Rule(**(fields | more))


def host(**more: Any) -> g.HostView:
    fields: dict[str, Any] = {"inventory": "tf:edge", "host": HOST, "pins": (PIN,)}
    return g.HostView(**(fields | more))
