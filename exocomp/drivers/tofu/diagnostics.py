"""What an engine complained about, read out of an attempt's log: -json diagnostics, and the boxed text of init."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from exocomp.drivers.tofu import progress

# The preface that init puts before the real errors.
_PREFACE = "encountered problems during initialisation"
_ERROR = re.compile(r"^(Error|Warning): (.*)$")
_ON = re.compile(r"^\s+on (\S.*) line (\d+)(?:, in .*)?:$")
_LONGEST_LINE = 16 << 20
_LONGEST_DETAIL = 16 << 10  # what is searched for known failures
_INTERESTING = ('"type":"diagnostic"', '"type":"apply_complete"', '"type":"change_summary"')


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One error; `where` is `file:line` relative to the module."""

    summary: str
    detail: str = ""
    address: str = ""
    where: str = ""

    @property
    def text(self) -> str:
        """Summary and detail with every run of white space as one space: the engine wraps its lines."""
        return " ".join(f"{self.summary} {self.detail}".split())


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """`changed` counts the resources that an apply finished; `summaries` are (operation, add, change, remove)."""

    problems: tuple[Problem, ...]
    changed: int
    summaries: tuple[tuple[str, int, int, int], ...]
    last_line: str


def read_log(log: Path) -> Reading:
    """Everything of interest; an absent log reads as an empty one. A job can put any line there."""
    try:
        with log.open(encoding="utf-8", errors="replace") as stream:
            return read_lines(iter(lambda: stream.readline(_LONGEST_LINE), ""))
    except FileNotFoundError:
        return read_lines(())


def read_lines(lines: Iterable[str]) -> Reading:
    problems: list[Problem] = []
    summaries: list[tuple[str, int, int, int]] = []
    plain: list[str] = []
    changed = 0
    for line in lines:
        if not line.startswith("{"):
            plain.append(progress.strip(line.rstrip("\n")))
            continue
        if not any(word in line for word in _INTERESTING) or (message := progress.parse(line)) is None:
            continue
        kind, hook, counts = message.get("type"), message.get("hook"), message.get("changes")
        if kind == "diagnostic" and (problem := _problem(message.get("diagnostic"))) is not None:
            problems.append(problem)
        elif kind == "apply_complete" and isinstance(hook, dict):
            changed += hook.get("action") not in ("read", "noop")
        elif kind == "change_summary" and isinstance(counts, dict):
            numbers = [counts.get(key, 0) for key in ("add", "change", "remove")]
            if all(isinstance(number, int) for number in numbers):
                summaries.append((str(counts.get("operation")), *numbers))
    problems = [p for p in _boxed(plain) if _PREFACE not in p.text] + problems
    last = next((line.strip() for line in reversed(plain) if line.strip(" │╷╵")), "")
    return Reading(
        problems=tuple(dict.fromkeys(problems)), changed=changed, summaries=tuple(summaries), last_line=last
    )


def _problem(diagnostic: Any) -> Problem | None:
    if not isinstance(diagnostic, dict) or diagnostic.get("severity") != "error":
        return None
    return Problem(
        summary=progress.strip(str(diagnostic.get("summary", "")))[:_LONGEST_DETAIL],
        detail=progress.strip(str(diagnostic.get("detail", "")))[:_LONGEST_DETAIL],
        address=progress.strip(str(diagnostic.get("address") or "")),
        where=progress.position(diagnostic),
    )


def _boxed(lines: Iterable[str]) -> list[Problem]:
    """Errors of a command without -json: "Error: summary", "on file line n", then the detail."""
    found: list[list[str]] = []
    collecting = False
    for raw in lines:
        line = raw.removeprefix("│").removeprefix(" ") if raw.startswith("│") else raw
        if (start := _ERROR.match(line)) is not None:
            collecting = start[1] == "Error"
            if collecting:
                found.append([start[2]])
        elif collecting and not line.startswith(("╷", "╵")):
            found[-1].append(line)
    return [_of_text(lines) for lines in found]


def _of_text(lines: list[str]) -> Problem:
    summary, *rest = lines
    # A long summary is wrapped; it ends at the first empty line.
    while rest and rest[0].strip() and _ON.match(rest[0]) is None:
        summary = f"{summary} {rest.pop(0).strip()}"
    places = [f"{match[1]}:{match[2]}" for line in rest if (match := _ON.match(line)) is not None]
    return Problem(
        summary=summary[:_LONGEST_DETAIL],
        detail="\n".join(rest).strip()[:_LONGEST_DETAIL],
        where=places[0] if places else "",
    )
