"""How a watched workflow is shown: JSON Lines, plain lines, or a picture that renews itself on a terminal."""

from __future__ import annotations

import shutil
import time
from typing import Any, Protocol

from msgspec.structs import replace

from exocomp.approval import Approval
from exocomp.cli import output
from exocomp.cli.approval_views import question
from exocomp.cli.board import Board
from exocomp.cli.lines import event_line, progress_line
from exocomp.cli.views import ledger
from exocomp.protocol import events as e
from exocomp.protocol.jobs import Progress
from exocomp.protocol.queries import WorkflowView


class Show(Protocol):
    """What live.py feeds; `close` puts the terminal right, whatever happened."""

    wants_progress: bool

    def begin(self, view: WorkflowView) -> None: ...
    def event(self, recorded: e.Recorded) -> None: ...
    def progress(self, step: str, progress: Progress) -> None: ...
    def question(self, approval: Approval) -> None: ...
    def tick(self) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self, view: WorkflowView) -> None: ...
    def close(self) -> None: ...


class JsonShow:
    """A line an event, then the ledger view as a last line."""

    wants_progress = False

    def begin(self, view: WorkflowView) -> None:
        pass

    def event(self, recorded: e.Recorded) -> None:
        output.line(output.to_json(recorded).decode())

    def progress(self, step: str, progress: Progress) -> None:
        pass

    def question(self, approval: Approval) -> None:
        pass

    def tick(self) -> None:
        pass

    def note(self, text: str) -> None:
        output.note(f"note: {text}")

    def end(self, view: WorkflowView) -> None:
        output.line(output.to_json(view).decode())

    def close(self) -> None:
        pass


class PlainShow:
    """A line an event and a line a step of progress, each with its time; the ledger view at the end."""

    wants_progress = True

    def __init__(self) -> None:
        self._told = ""  # the reason of the step before

    def begin(self, view: WorkflowView) -> None:
        pass

    def event(self, recorded: e.Recorded) -> None:
        event = recorded.event
        if isinstance(event, e.StepMoved) and event.new == "ready" and not event.reason:
            return  # says no more than the success before it
        if isinstance(event, e.StepMoved):
            self._told = event.reason
        if isinstance(event, e.WorkflowEnded) and self._told and event.reason.endswith(self._told):
            recorded = replace(recorded, event=replace(event, reason="", hint=""))
        output.line(event_line(recorded, color=output.colored()))

    def progress(self, step: str, progress: Progress) -> None:
        output.line(progress_line(step, progress, time.time(), color=output.colored()))

    def question(self, approval: Approval) -> None:
        output.line(question(approval, now=time.time(), color=output.colored()))

    def tick(self) -> None:
        pass

    def note(self, text: str) -> None:
        output.note(f"note: {text}")

    def end(self, view: WorkflowView) -> None:
        output.line("\n" + ledger(view, now=time.time(), width=output.width(), color=output.colored()))

    def close(self) -> None:
        pass


KEPT = (e.OutputsCaptured, e.HostKeyRefused, e.AttemptLost, e.AttemptAdopted, e.StepQueued)


class ScreenShow:
    """The picture of board.py, renewed at every tick; what should stay readable is printed above it."""

    wants_progress = True

    def __init__(self) -> None:
        self._board: Board | None = None
        self._live: Any = None

    def begin(self, view: WorkflowView) -> None:
        from rich.console import Console
        from rich.live import Live

        self._board = Board(view)
        console = Console(highlight=False, soft_wrap=True)
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
        self._live.start()
        self.tick()

    def event(self, recorded: e.Recorded) -> None:
        if self._board is not None:
            self._board.event(recorded)
        event = recorded.event
        if isinstance(event, KEPT) and not (isinstance(event, e.OutputsCaptured) and not event.changed):
            self._above(event_line(recorded, color=output.colored()))

    def progress(self, step: str, progress: Progress) -> None:
        if self._board is not None:
            self._board.progress(step, progress)
        if progress.state in ("failed", "unreachable", "error"):
            self._above(progress_line(step, progress, time.time(), color=output.colored()))

    def question(self, approval: Approval) -> None:
        self._above(question(approval, now=time.time(), color=output.colored()))

    def tick(self) -> None:
        from rich.text import Text

        if self._board is not None and self._live is not None:
            columns, lines = shutil.get_terminal_size()
            picture = self._board.picture(time.time(), width=columns, height=lines - 1, color=output.colored())
            self._live.update(Text.from_ansi(picture, no_wrap=True), refresh=True)

    def note(self, text: str) -> None:
        self._above(f"note: {text}")

    def end(self, view: WorkflowView) -> None:
        self.close()
        output.line(ledger(view, now=time.time(), width=output.width(), color=output.colored()))

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _above(self, text: str) -> None:
        if self._live is None:
            output.note(text)
            return
        from rich.text import Text

        self._live.console.print(Text.from_ansi(text))
