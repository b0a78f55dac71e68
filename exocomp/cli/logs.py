"""Logs of jobs: from the attempt's directory, or streamed by the daemon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from exocomp.cli import doing, output, reading
from exocomp.cli.lasting import Link, stay_connected
from exocomp.cli.options import Common
from exocomp.cli.render import clean
from exocomp.errors import Bug, ExocompError, NotFound
from exocomp.model import RunState, StepRow
from exocomp.protocol.events import StepMoved, WorkflowEnded
from exocomp.protocol.jobs import Job
from exocomp.protocol.queries import JobView, ShowJob, WorkflowView

LONGEST = 1 << 20  # a longer line is printed in pieces


class Printer:
    """Lines of one job's log as text for a person, or as JSON Lines."""

    def __init__(self, job: Job, *, as_json: bool, raw: bool) -> None:
        self._job = job
        self._as_json = as_json
        self._render = _render(job, raw)
        self._rest = ""

    def feed(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._print(line)
        while len(self._rest) > LONGEST:
            self._print(self._rest[:LONGEST])
            self._rest = self._rest[LONGEST:]

    def end(self) -> None:
        if self._rest:
            self._print(self._rest)
            self._rest = ""

    def _print(self, line: str) -> None:
        shown = self._render(line)
        if shown is None:
            return
        if self._as_json:
            output.line(output.to_json({"job": self._job.id, "step": self._job.step, "line": shown}).decode())
        else:
            print("\n".join(clean(part.rstrip("\r")) for part in shown.split("\n")), flush=True)


def _render(job: Job, raw: bool) -> Callable[[str], str | None]:
    if raw or job.kind != "tofu":
        return lambda line: line
    from exocomp.drivers.tofu.progress import render

    return render


def print_job(common: Common, view: JobView, attempt: int | None, *, raw: bool) -> int:
    """One attempt's log as it is now; raises NotFound when there is none."""
    printer = Printer(view.job, as_json=common.as_json, raw=raw)
    if reading.only_socket(common):
        return doing.run(_stream, common, view.job.id, attempt, raw, False)
    numbers = [each.number for each in view.attempts]
    if attempt is not None and attempt not in numbers:
        raise NotFound(
            f"{view.job.id} has no attempt {attempt}", hint=f"it has {', '.join(map(str, numbers)) or 'none'}"
        )
    directory = Path(view.directory) if attempt is None else Path(view.directory).parent / str(attempt)
    with _open(view.job.id, directory / "log") as stream:
        while chunk := stream.read(LONGEST):
            printer.feed(chunk)
    printer.end()
    return 0


def _open(id: str, file: Path) -> TextIO:
    try:
        return file.open(encoding="utf-8", errors="replace", newline="\n")
    except FileNotFoundError:
        hint = "a probe or scan prints nothing: its hosts are in `exocomp job show`"
        raise NotFound(f"{id} has no log", hint=hint) from None
    except OSError as error:
        raise ExocompError(f"cannot read {file}: {error.strerror}") from None


def print_workflow(common: Common, view: WorkflowView, step: str | None, *, raw: bool) -> int:
    """Every step's log in order, or one step's."""
    for row in chosen(view, step):
        if row.job is None:
            continue
        job = reading.ask(common, ShowJob(id=row.job), JobView)
        _head(common, row, job.job)
        try:
            print_job(common, job, None, raw=raw)
        except NotFound as error:
            output.note(f"note: {error.what}")
    return 0


def chosen(view: WorkflowView, step: str | None) -> list[StepRow]:
    """All steps, or the one named: by its name, its stage, or its stage's row number from 1."""
    rows = [each.step for each in view.steps]
    if step is None:
        return rows
    stages = list(dict.fromkeys(row.stage for row in rows))
    if step.isascii() and step.isdigit() and 1 <= int(step) <= len(stages):
        step = stages[int(step) - 1]
    found = [row for row in rows if step == row.stage] or [row for row in rows if step == row.name]
    if not found:
        names = ", ".join(row.name for row in rows)
        raise NotFound(f"{view.workflow.id} has no step {step!r}", hint=f"its steps are {names}")
    return found


def _head(common: Common, row: StepRow, job: Job) -> None:
    if not common.as_json:
        output.line(f"--- {row.name} {job.id}")


def follow_job(common: Common, id: str, attempt: int | None, *, raw: bool) -> int:
    """Stream one attempt's log to its end; Ctrl-C only stops the watching."""
    return doing.run(_stream, common, id, attempt, raw, True)


async def _stream(common: Common, id: str, attempt: int | None, raw: bool, live: bool) -> int:
    from exocomp.cli.live import DETACHED, until_interrupt

    async with stay_connected(common.socket_file, note=_note) as link:
        stopped = await until_interrupt(_copy, link, common, id, attempt, raw, live)
    return DETACHED if stopped else 0


def follow_workflow(common: Common, id: str, step: str | None, *, raw: bool) -> int:
    """Stream the logs of a workflow's steps, one after the other, until it ends."""
    return doing.run(_stream_workflow, common, id, step, raw)


async def _stream_workflow(common: Common, id: str, step: str | None, raw: bool) -> int:
    from exocomp.cli.live import DETACHED, until_interrupt

    async with stay_connected(common.socket_file, note=_note) as link:
        stopped = await until_interrupt(_copy_workflow, link, common, id, step, raw)
    return DETACHED if stopped else 0


async def _copy_workflow(link: Link, common: Common, id: str, step: str | None, raw: bool) -> None:
    from exocomp.cli.live import view_of

    since = (await link.client()).since
    view = await view_of(link, id)
    wanted = {row.name for row in chosen(view, step)}
    for each in view.steps:
        if each.step.name in wanted and each.step.job:
            await _copy(link, common, each.step.job, None, raw, True)
    if view.workflow.state != RunState.RUNNING:
        return
    seen = {each.step.job for each in view.steps}
    async for recorded in link.follow(since=since, workflow=view.workflow.id):
        event = recorded.event
        if isinstance(event, StepMoved) and event.new == "running" and event.job and event.step in wanted:
            if event.job not in seen:
                await _copy(link, common, event.job, event.attempt, raw, True)
        elif isinstance(event, WorkflowEnded) and (await view_of(link, id)).workflow.state != RunState.RUNNING:
            return


async def _copy(link: Link, common: Common, id: str, attempt: int | None, raw: bool, live: bool) -> None:
    view = await link.ask(ShowJob(id=id))
    if not isinstance(view, JobView):
        raise Bug(f"ShowJob was answered by {type(view).__name__}")
    printer = Printer(view.job, as_json=common.as_json, raw=raw)
    async for chunk in link.follow_log(view.job.id, attempt=attempt, live=live):
        printer.feed(chunk.text)
    printer.end()


def _note(text: str) -> None:
    output.note(f"note: {text}")
