"""Lines of an engine as progress, and as text for a person."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exocomp.drivers.tofu.progress import decode, decoder, render
from exocomp.protocol.jobs import Progress

RESOURCE = {"addr": "module.a.terraform_data.x[0]", "resource": "terraform_data.x[0]"}


def line(kind: str, said: str = "said", **more: Any) -> str:
    return json.dumps({"@level": "info", "@message": said, "@module": "terraform.ui", "type": kind, **more})


def hook(kind: str, **more: Any) -> str:
    return line(kind, hook={"resource": RESOURCE, **more})


def at(state: str, **more: Any) -> Progress:
    return Progress(state=state, subject="module.a.terraform_data.x[0]", **more)


DECODED = [
    (hook("apply_start", action="create"), at("started", what="create")),
    (hook("apply_progress", action="create", elapsed_seconds=10), at("started", what="create", elapsed_s=10.0)),
    (hook("apply_complete", action="create", elapsed_seconds=12), at("changed", what="create", elapsed_s=12.0)),
    (hook("apply_complete", action="read", elapsed_seconds=0), at("ok", what="read", elapsed_s=0.0)),
    (hook("apply_errored", action="delete", elapsed_seconds=1), at("failed", what="delete", elapsed_s=1.0)),
    (hook("provision_errored", provisioner="local-exec"), at("failed", what="local-exec")),
    (
        hook("provision_progress", provisioner="local-exec", output="\x1b[31mred\x1b[0m\n"),
        at("plain", what="local-exec", detail="red"),
    ),
    (
        line("planned_change", change={"resource": RESOURCE, "action": "replace"}),
        at("plain", what="plan to replace"),
    ),
    (line("change_summary", "Plan: 1 to add", changes={}), Progress(state="plain", detail="Plan: 1 to add")),
    (line("state_moved", "the state moved"), Progress(state="warning", detail="the state moved")),
    (line("a_type_of_the_future", "news"), Progress(state="plain", detail="news")),
    (line("version"), None),
    (line("outputs", outputs={"a": {"value": "x" * 100}}), None),
    (hook("refresh_start"), None),
    ("", None),
    ("\x1b[0m", None),
    ("Initializing the \x1b[1mbackend\x1b[0m...", Progress(state="plain", detail="Initializing the backend...")),
    ("\x1b]0;title\x07text\x1b[2J\x9b31m\r", Progress(state="plain", detail="text31m")),
    ('{"not": "a message"}', Progress(state="plain", detail='{"not": "a message"}')),
    ('{"@message": "cut', Progress(state="plain", detail='{"@message": "cut')),
    ("[1]", Progress(state="plain", detail="[1]")),
]


@pytest.mark.parametrize(("text", "expected"), DECODED)
def test_a_line_is_decoded(text: str, expected: Progress | None) -> None:
    assert decode(text) == expected


@pytest.mark.parametrize("severity", ["error", "warning"])
def test_a_diagnostic_says_what_and_where(severity: str) -> None:
    diagnostic = {
        "severity": severity,
        "summary": "Unsupported argument",
        "detail": 'No argument named "x".',
        "address": "terraform_data.x",
        "range": {"filename": "main.tf", "start": {"line": 3}},
    }
    text = line("diagnostic", "Error: Unsupported argument", diagnostic=diagnostic)
    assert decode(text) == Progress(
        state=severity,
        subject="terraform_data.x",
        what="Unsupported argument (main.tf:3)",
        detail='No argument named "x".',
    )
    assert render(text) == 'Error: Unsupported argument (main.tf:3)\nNo argument named "x".'


@pytest.mark.parametrize("broken", [{"hook": 3}, {"hook": {"resource": None}}, {"diagnostic": []}, {"change": "x"}])
def test_odd_shapes_are_no_crash(broken: dict[str, Any]) -> None:
    for kind in ("diagnostic", "planned_change", "apply_start", "apply_complete", "provision_progress"):
        assert decode(line(kind, **broken)) is not None
        assert render(line(kind, **broken)).startswith("said")


def test_render_is_the_message_or_the_line_without_escapes() -> None:
    assert render(line("version", "Terraform 1.11.4")) == "Terraform 1.11.4"
    assert render("\x1b[31mred\x1b[0m") == "red"


def test_what_the_plan_said_is_not_said_again_by_the_apply() -> None:
    change = (
        '{"@message":"x","type":"planned_change","change":{"resource":{"addr":"terraform_data.x"},"action":"create"}}'
    )
    summary = '{"type":"change_summary","@message":"Plan: 1 to add, 0 to change, 0 to destroy."}'
    read = decoder()
    assert [read(line) is None for line in (change, summary, change)] == [False, False, True]
