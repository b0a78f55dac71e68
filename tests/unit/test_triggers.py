"""Triggers: the events that a rule may answer, which of them fit it, and whose limit is the event's host."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from exocomp import triggers
from exocomp.errors import ExocompError, WrongUsage
from exocomp.model import Outcome, Rule, RunOptions, RunState, StepState, Trust, Work
from exocomp.protocol import events as e
from exocomp.protocol import fired
from exocomp.protocol.event import Event


def captured(**fields: Any) -> e.OutputsCaptured:
    given = {
        "workspace": "edge",
        "inventory": "tf:edge",
        "generation": 3,
        "path": "/x",
        "outputs": 1,
        "hosts": 2,
        "message": "captured",
    }
    return e.OutputsCaptured(**(given | fields))


def moved(new: StepState) -> e.StepMoved:
    return e.StepMoved(workflow="wf_1", step="apply", stage="apply", old=StepState.RUNNING, new=new)


def joined(host: str = "web1") -> e.HostJoined:
    return e.HostJoined(inventory="tf:edge", host=host)


PIN = e.HostPinned(name="192.0.2.1", key_type="ssh-ed25519", fingerprint="SHA256:x", trust=Trust.TOFU)
REFUSED_KEY = e.HostKeyRefused(host="web1", name="192.0.2.1", recorded=("ssh-ed25519 a",), offered=("ssh-rsa b", "c"))
# One event for each word that a person may give, and no other of these fits it.
SAMPLES: dict[str, Event] = {
    "workspace.applied": captured(),
    "workspace.destroyed": captured(verb="destroy"),
    "inventory.added": e.InventoryAdded(inventory="dc1", generation=1, hosts=2),
    "host.joined": joined(),
    "host.left": e.HostLeft(inventory="tf:edge", host="web1"),
    "host.pinned": PIN,
    "host.key_refused": REFUSED_KEY,
    "job.failed": moved(StepState.FAILED),
    "workflow.succeeded": e.WorkflowEnded(workflow="wf_1", state=RunState.SUCCEEDED),
    "workflow.failed": e.WorkflowEnded(workflow="wf_1", state=RunState.FAILED),
    "workflow.cancelled": e.WorkflowEnded(workflow="wf_1", state=RunState.CANCELLED),
    "schedule.refused": fired.ScheduleRefused(schedule="conv", reason="no hosts", target="tf:edge"),
    "schedule.skipped": fired.ScheduleSkipped(schedule="conv", outcome=Outcome.SKIPPED, reason="busy"),
    "fleet_key.rotated": e.FleetKeyRotated(fingerprint="SHA256:n", replaced="SHA256:o"),
}
OTHERS = (moved(StepState.SUCCEEDED), moved(StepState.CANCELLED), e.WorkspaceAdded(workspace="edge", directory="/m"))


def rule(on: str = "host.joined", limit: str | None = None, **match: str) -> Rule:
    work = Work(
        kind="play", target="dc1", playbook="/srv/site.yml", options=RunOptions(limit=limit, tags="a"), key="k"
    )
    return Rule(name="r", on=on, match=match, work=work)


@pytest.mark.parametrize("on", triggers.TRIGGERS)
def test_a_trigger_fits_its_own_event_and_none_of_the_others(on: str) -> None:
    assert [name for name, event in SAMPLES.items() if triggers.fits(rule(on), event)] == [on]
    assert [event for event in OTHERS if triggers.fits(rule(on), event)] == []


def test_nothing_that_a_rule_itself_causes_is_a_trigger() -> None:
    """A rule that answered its own refusal would do so for ever: no workflow stands behind it that could be told."""
    kinds = {trigger.kind for trigger in triggers.TRIGGERS.values()}
    assert kinds <= set(get_args(e.AnyEvent))
    assert kinds.isdisjoint({fired.RuleFired, fired.RuleRefused, fired.RuleSkipped})


def test_a_rule_of_an_event_that_this_release_does_not_know_fits_nothing() -> None:
    assert [event for event in SAMPLES.values() if triggers.fits(rule("host.teleported"), event)] == []


@pytest.mark.parametrize(
    ("on", "event", "match", "fits"),
    [
        ("workspace.applied", captured(), {"workspace": "edge"}, True),
        ("workspace.applied", captured(), {"workspace": "edge", "inventory": "tf:*"}, True),
        ("workspace.applied", captured(), {"workspace": "edge", "inventory": "dc*"}, False),
        ("workspace.applied", captured(workspace="edge2"), {"workspace": "edge"}, False),
        ("workspace.applied", captured(workspace="edge2"), {"workspace": "edge?"}, True),
        ("workspace.applied", captured(workspace="Edge"), {"workspace": "edge"}, False),
        ("workspace.applied", captured(), {"generation": "3"}, True),
        ("workspace.applied", captured(generation=33), {"generation": "3"}, False),
        ("workspace.applied", captured(changed=True), {"changed": "true"}, True),
        ("workspace.applied", captured(changed=False), {"changed": "true"}, False),
        ("workspace.applied", captured(changed=False), {"changed": "False"}, False),
        ("workspace.applied", captured(workflow=None), {"workflow": ""}, True),
        ("workspace.applied", captured(workflow=None), {"workflow": "None"}, False),
        ("workspace.applied", captured(workflow="wf_1"), {"workflow": "?*"}, True),
        ("host.joined", joined("web10"), {"host": "web[12]?"}, True),
        ("host.joined", joined("db1"), {"host": "web*"}, False),
        ("host.key_refused", REFUSED_KEY, {"offered": "ssh-rsa *"}, True),
        ("host.key_refused", REFUSED_KEY, {"offered": "ssh-ed25519 *"}, False),
        ("host.pinned", PIN, {"trust": "tofu"}, True),
        ("job.failed", moved(StepState.FAILED), {"old": "running", "step": "apply"}, True),
    ],
)
def test_a_field_fits_as_a_file_name_does_in_a_shell(
    on: str, event: Event, match: dict[str, str], fits: bool
) -> None:
    assert triggers.fits(rule(on, **match), event) is fits


def test_every_field_of_every_trigger_can_be_matched_and_no_other() -> None:
    for on, event in SAMPLES.items():
        fields = type(event).__struct_fields__
        triggers.check(on, dict.fromkeys(fields, "*"), None)
        assert triggers.fits(rule(on, **dict.fromkeys(fields, "*")), event), on
        with pytest.raises(WrongUsage, match=f"--match colour: {on} has no such field") as refusal:
            triggers.check(on, {"colour": "*"}, None)
        assert refusal.value.hint == f"its fields: {', '.join(fields)}"


def test_an_event_that_no_rule_answers_is_refused_with_those_that_one_does() -> None:
    for on in ("rule.refused", "host_joined", "Host.Joined", ""):
        with pytest.raises(WrongUsage, match="is no event that a rule answers") as refusal:
            triggers.check(on, {}, None)
        assert all(known in refusal.value.hint for known in SAMPLES)


def test_a_limit_of_the_events_host_needs_an_event_that_is_of_one() -> None:
    for on in ("host.joined", "host.left", "host.key_refused"):
        triggers.check(on, {}, "web*:&{host}")
    for on in ("workspace.applied", "inventory.added", "job.failed", "schedule.refused", "fleet_key.rotated"):
        triggers.check(on, {}, "web*")
        with pytest.raises(WrongUsage, match=f"{on} is of no host"):
            triggers.check(on, {}, "{host}")


def test_the_host_takes_its_place_in_the_limit_and_all_else_of_the_work_stays() -> None:
    given = rule(limit="{host}:&{host}:!db1")
    work = triggers.work(given, joined("web-1.example_a"))
    assert work.options.limit == "web-1.example_a:&web-1.example_a:!db1"
    assert (work.options.tags, work.target, work.playbook, work.key) == ("a", "dc1", "/srv/site.yml", "k")
    assert given.work.options.limit == "{host}:&{host}:!db1"


@pytest.mark.parametrize("limit", [None, "web*", "{hosts}"])
def test_a_limit_without_a_host_is_as_it_was_given_whatever_the_host_is_called(limit: str | None) -> None:
    given = rule(limit=limit)
    assert triggers.work(given, joined("web*")) is given.work


@pytest.mark.parametrize("host", ["*", "web*", "a,b", "a:b", "!a", "&a", "~a", "@/etc/hosts", "web[1:2]", "a b", ""])
def test_a_host_whose_name_is_a_pattern_widens_no_limit(host: str) -> None:
    with pytest.raises(ExocompError, match="cannot stand in --limit"):
        triggers.work(rule(limit="{host}"), joined(host))


def test_an_event_whose_host_is_not_known_is_refused_in_words() -> None:
    with pytest.raises(ExocompError, match="cannot stand in --limit"):
        triggers.work(rule("host.pinned", limit="{host}"), PIN)
