"""The live picture of one workflow: a fold of its ledger view, its events and its progress; pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from exocomp.cli.render import BAD, cells, clean, color_of, duration, fit, paint
from exocomp.cli.views import stages, target
from exocomp.model import ENDED, StepState
from exocomp.protocol import events as e
from exocomp.protocol.jobs import Progress
from exocomp.protocol.queries import WorkflowView

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SUBJECTS_SHOWN = 8
COUNTED = ("ok", "changed", "skipped", "failed", "unreachable", "error", "warning")


@dataclass
class Row:
    """One stage as it stands."""

    name: str
    state: StepState
    started_at: float | None = None
    ended_at: float | None = None
    reason: str = ""
    step: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    latest: dict[str, tuple[str, str]] = field(default_factory=dict)  # subject → state, what


class Board:
    """Fed in any order of events and progress; `picture` never needs more than the terminal has."""

    def __init__(self, view: WorkflowView) -> None:
        flow = view.workflow
        self.title = " ".join(filter(None, (flow.kind, flow.id, target(flow), flow.playbook)))
        self.rows = {
            s.name: Row(name=s.name, state=s.state, started_at=s.started_at, ended_at=s.ended_at, reason=s.reason)
            for s in stages(view)
        }
        self._stage = {s.step.name: s.step.stage for s in view.steps}
        self._last = {s.step.stage: s.step.name for s in view.steps}
        self._first = {s.step.stage: s.step.name for s in reversed(view.steps)}
        for step in view.steps:
            for host in step.hosts:
                self.rows[step.step.stage].latest[host.host] = (host.outcome, host.detail)

    def event(self, recorded: e.Recorded) -> None:
        match recorded.event:
            case e.StepMoved() as moved if moved.stage in self.rows:
                self._move(self.rows[moved.stage], moved, recorded.at)
            case e.HostAnswered() as answered:
                self._mark("wait", answered.host, "answered", f"after {duration(answered.after_s)}")
            case e.HostPinned() as pinned:
                self._mark("pin", pinned.name, "pinned", pinned.fingerprint)
            case e.HostKeyRefused() as refused:
                self._mark("pin", refused.host, "refused", "its key changed")

    def progress(self, step: str, progress: Progress) -> None:
        row = self.rows.get(self._stage.get(step, ""))
        if row is None:
            return
        if progress.state in COUNTED:
            row.counts[progress.state] += 1
        if progress.subject:
            state = "" if progress.state == "plain" else progress.state
            what = " ".join(filter(None, (progress.what, progress.detail if state in BAD or not state else "")))
            row.latest.pop(progress.subject, None)  # the newest stands last
            row.latest[progress.subject] = (state, what)

    def _move(self, row: Row, moved: e.StepMoved, at: float) -> None:
        first, last = self._first.get(moved.stage) == moved.step, self._last.get(moved.stage) == moved.step
        if (moved.new == StepState.SUCCEEDED and not last) or (moved.new == StepState.BLOCKED and not first):
            return
        if moved.new == StepState.READY and (first or moved.old != StepState.BLOCKED):
            row.started_at = None
        if moved.new == StepState.RUNNING:
            row.started_at = at if row.started_at is None else row.started_at
            row.counts.clear()
            row.latest.clear()
        row.step, row.state, row.reason = moved.step, moved.new, moved.reason
        row.ended_at = at if moved.new in ENDED else None

    def _mark(self, step: str, subject: str, state: str, what: str) -> None:
        row = self.rows.get(self._stage.get(step, ""))
        if row is not None:
            row.latest[subject] = (state, what)

    def picture(self, now: float, *, width: int, height: int, color: bool) -> str:
        """At most `height` lines of at most `width` columns."""
        lines = [paint(fit(clean(self.title), width), "bold", color)]
        room = max(height - 1 - len(self.rows), 0)
        for row in self.rows.values():
            lines.append(self._row(row, now, width, color))
            inside = self._inside(row, width, color)[: min(room, SUBJECTS_SHOWN)]
            room -= len(inside)
            lines += inside
        return "\n".join(lines[:height])

    def _row(self, row: Row, now: float, width: int, color: bool) -> str:
        running = row.state == StepState.RUNNING
        mark = SPINNER[int(now * 8) % len(SPINNER)] if running else " "
        time = "" if row.started_at is None else duration((row.ended_at or now) - row.started_at)
        counts = " ".join(f"{name}={row.counts[name]}" for name in COUNTED if row.counts[name])
        doing = row.step if running and row.step != row.name else ""
        rest = " ".join(filter(None, (doing, counts, clean(row.reason))))
        state = paint(row.state.ljust(10), color_of(row.state), color)
        return f"{mark} {row.name.ljust(10)} {state} {time.rjust(7)}  {fit(rest, max(width - 33, 1))}".rstrip()

    def _inside(self, row: Row, width: int, color: bool) -> list[str]:
        if row.state not in (StepState.RUNNING, StepState.FAILED):
            return []
        newest = list(row.latest.items())[::-1]
        newest.sort(key=lambda item: item[1][0] not in BAD)
        out = []
        for subject, (state, what) in newest:
            name = fit(clean(subject), max(width // 3, 8))
            rest = fit(clean(what), max(width - 17 - cells(name), 1))
            out.append(f"    {name} {paint(state.ljust(11), color_of(state), color)} {rest}".rstrip())
        return out
