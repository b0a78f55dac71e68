"""Live progress out of an engine's -json lines; pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from exocomp.protocol.jobs import Progress

_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI (ECMA-48)
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC, DCS, SOS, PM, APC up to their end
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_SILENT = frozenset(
    {"version", "outputs", "refresh_start", "refresh_complete", "provision_start", "provision_complete"}
)
_DONE = {"apply_complete": "changed", "ephemeral_op_complete": "ok"}
_FAILED = ("apply_errored", "provision_errored", "ephemeral_op_errored")
_STARTED = ("apply_start", "apply_progress", "ephemeral_op_start", "ephemeral_op_progress")


def decode(line: str) -> Progress | None:
    """What one line of the log says; None for nothing worth showing. Non-JSON lines are `plain`, escapes removed."""
    message = parse(line)
    if message is None:
        text = strip(line).rstrip()
        return Progress(state="plain", detail=text) if text else None
    kind = str(message.get("type", ""))
    said = strip(str(message.get("@message", "")))
    if kind in _SILENT:
        return None
    if kind == "diagnostic":
        return _diagnostic(_part(message, "diagnostic"))
    if kind == "state_moved":
        return Progress(state="warning", detail=said)
    if kind in ("planned_change", "resource_drift"):
        change = _part(message, "change")
        verb = "plan to" if kind == "planned_change" else "changed outside:"
        return Progress(
            state="plain", subject=_address(change), what=f"{verb} {strip(str(change.get('action', '')))}"
        )
    hook = _part(message, "hook")
    address, action = _address(hook), strip(str(hook.get("action", "")))
    elapsed = hook.get("elapsed_seconds")
    elapsed_s = float(elapsed) if isinstance(elapsed, int | float) else None
    if kind in _STARTED:
        return Progress(state="started", subject=address, what=action, elapsed_s=elapsed_s)
    if kind in _DONE:
        state = "ok" if action in ("read", "noop") else _DONE[kind]
        return Progress(state=state, subject=address, what=action, elapsed_s=elapsed_s)
    if kind in _FAILED:
        what = action or strip(str(hook.get("provisioner", "")))
        return Progress(state="failed", subject=address, what=what, elapsed_s=elapsed_s)
    if kind == "provision_progress":
        what, output = strip(str(hook.get("provisioner", ""))), strip(str(hook.get("output", "")))
        return Progress(state="plain", subject=address, what=what, detail=output.rstrip())
    return Progress(state="plain", detail=said) if said else None


def decoder() -> Callable[[str], Progress | None]:
    """`decode` over the lines of one log: an apply says again what its plan has said, which is left out."""
    planned = False

    def decode_next(line: str) -> Progress | None:
        nonlocal planned
        kind = (parse(line) or {}).get("type")
        if kind == "planned_change" and planned:
            return None
        planned = planned or kind == "change_summary"
        return decode(line)

    return decode_next


def render(line: str) -> str:
    """A raw line of the log for a person: its message with what belongs to it, or the line, escapes removed."""
    message = parse(line)
    if message is None:
        return strip(line)
    said = strip(str(message.get("@message", "")))
    if message.get("type") == "diagnostic":
        diagnostic = _part(message, "diagnostic")
        detail = strip(str(diagnostic.get("detail", "")))
        return "\n".join(part for part in (_at(said, diagnostic), detail) if part)
    return said


def parse(line: str) -> dict[str, Any] | None:
    """The object in a -json line; None for any other line."""
    if not line.startswith("{"):
        return None
    try:
        message = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return message if isinstance(message, dict) and "@message" in message else None


def strip(text: str) -> str:
    """Without terminal escapes and control characters; line ends and tabs stay."""
    return _ESCAPE.sub("", text)


def position(diagnostic: dict[str, Any]) -> str:
    """`file:line`, or nothing."""
    where = _part(diagnostic, "range")
    line = _part(where, "start").get("line")
    return strip(f"{where['filename']}:{line}") if where.get("filename") and line else ""


def _diagnostic(diagnostic: dict[str, Any]) -> Progress:
    return Progress(
        state="error" if diagnostic.get("severity") == "error" else "warning",
        subject=strip(str(diagnostic.get("address") or "")),
        what=_at(strip(str(diagnostic.get("summary", ""))), diagnostic),
        detail=strip(str(diagnostic.get("detail", ""))),
    )


def _at(text: str, diagnostic: dict[str, Any]) -> str:
    where = position(diagnostic)
    return f"{text} ({where})" if where else text


def _part(message: dict[str, Any], name: str) -> dict[str, Any]:
    part = message.get(name)
    return part if isinstance(part, dict) else {}


def _address(part: dict[str, Any]) -> str:
    return strip(str(_part(part, "resource").get("addr", "")))
