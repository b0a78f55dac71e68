"""Watching a workflow to its end: events and progress into a show, through restarts of the daemon."""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import trio

from exocomp.approval import ApprovalState
from exocomp.cli import doing, output
from exocomp.cli.lasting import Link, stay_connected
from exocomp.cli.options import Common
from exocomp.cli.shows import JsonShow, PlainShow, ScreenShow, Show
from exocomp.errors import Bug, NotAllowed, NotFound
from exocomp.model import RunState, StepState
from exocomp.protocol.approving import ApprovalAsked, Approvals, ListApprovals
from exocomp.protocol.commands import AnyCommand, Started
from exocomp.protocol.events import Recorded, StepMoved, WorkflowEnded
from exocomp.protocol.jobs import Progress
from exocomp.protocol.queries import JobView, ShowJob, ShowWorkflow, WorkflowView

DRAIN_S = 2.0  # how long a step's last progress may come after its end
TICK_S = 0.125
DETACHED = 130

_progress = msgspec.json.Decoder(Progress)


def watch(common: Common, *, id: str = "", command: AnyCommand | None = None, block: bool = True) -> int:
    """Say `command` (else look up `id`), then show the workflow until it ends: 0 succeeded, 1 not, 130 detached.

    Without `block` it returns 4 as soon as the workflow waits for an approval.
    """
    show = _show(common)
    try:
        return doing.run(_watch, common.socket_file, id, command, show, block)
    finally:
        show.close()


def _show(common: Common) -> Show:
    if common.as_json:
        return JsonShow()
    return ScreenShow() if output.is_terminal(sys.stdout) else PlainShow()


async def _watch(socket: Path, id: str, command: AnyCommand | None, show: Show, block: bool) -> int:
    async with stay_connected(socket, note=show.note) as link:
        since = (await link.client()).since
        if command is not None:
            reply = await link.do(command)
            id = reply.workflow if isinstance(reply, Started) else id
        view = await view_of(link, id)
        watching = Watch(link, show, view, block)
        detached = await until_interrupt(watching.run, since, command is None)
        if detached:
            show.close()
            id = view.workflow.id
            output.note(f"detached; {id} goes on")
            output.note(f"watch it: exocomp provision watch {id}")
            output.note(f"cancel it: exocomp provision cancel {id}")
            return DETACHED
        if watching.asked and not (block or detached):
            show.close()
            id = view.workflow.id
            output.note(f"{id} waits for an approval; watch it: exocomp provision watch {id}")
            return NotAllowed.exit_code
        view = await view_of(link, view.workflow.id)
        show.end(view)
        return 0 if view.workflow.state == RunState.SUCCEEDED else 1


async def until_interrupt(task: Callable[..., Awaitable[object]], *args: object) -> bool:
    """Run the async `task` until it returns or Ctrl-C comes; True when Ctrl-C came."""
    interrupted = False

    async def wait(scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
        nonlocal interrupted
        with trio.open_signal_receiver(signal.SIGINT) as signals:
            task_status.started()
            async for _ in signals:
                interrupted = True
                scope.cancel()

    async with trio.open_nursery() as nursery:
        await nursery.start(wait, nursery.cancel_scope)
        await task(*args)
        nursery.cancel_scope.cancel()
    return interrupted


async def view_of(link: Link, id: str) -> WorkflowView:
    view = await link.ask(ShowWorkflow(id=id))
    if not isinstance(view, WorkflowView):
        raise Bug(f"ShowWorkflow was answered by {type(view).__name__}")
    return view


class Watch:
    """One workflow, from the state that `view` shows until its end."""

    def __init__(self, link: Link, show: Show, view: WorkflowView, block: bool = True) -> None:
        self._link = link
        self._show = show
        self._view = view
        self._id = view.workflow.id
        self._block = block
        self.asked = False
        self._tails: dict[tuple[str, int | None], trio.Event] = {}

    async def run(self, since: int, midway: bool) -> None:
        """`midway`: steps may already run whose start lies before event `since`."""
        self._show.begin(self._view)
        if self._view.workflow.state != RunState.RUNNING:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tick)
            for each in self._view.steps if midway else ():
                if each.step.state == StepState.RUNNING and each.step.job:
                    job = await self._link.ask(ShowJob(id=each.step.job))
                    if isinstance(job, JobView):
                        self._tail(nursery, each.step.name, job.job.id, job.job.attempt)
            if midway and any(each.step.state == StepState.WAITING for each in self._view.steps):
                await self._ask()
                if self.asked and not self._block:
                    nursery.cancel_scope.cancel()
            async for recorded in self._link.follow(since=since, workflow=self._id):
                await self._take(nursery, recorded)
                if self.asked and not self._block:
                    break
                if isinstance(recorded.event, WorkflowEnded) and await self._is_over():
                    break
            nursery.cancel_scope.cancel()

    async def _take(self, nursery: trio.Nursery, recorded: Recorded) -> None:
        event = recorded.event
        if isinstance(event, StepMoved) and event.old == StepState.RUNNING:
            with trio.move_on_after(DRAIN_S):
                for done in list(self._tails.values()):
                    await done.wait()
        self._show.event(recorded)
        if isinstance(event, ApprovalAsked):
            await self._ask()
        if isinstance(event, StepMoved) and event.new == StepState.RUNNING and event.job:
            self._tail(nursery, event.step, event.job, event.attempt)

    async def _ask(self) -> None:
        """Show the question that is open."""
        found = await self._link.ask(ListApprovals(state=ApprovalState.OPEN, workflow=self._id))
        for approval in found.approvals if isinstance(found, Approvals) else ():
            self.asked = True
            self._show.question(approval)

    async def _is_over(self) -> bool:
        # An end that was followed by a retry is not the end.
        return (await view_of(self._link, self._id)).workflow.state != RunState.RUNNING

    def _tail(self, nursery: trio.Nursery, step: str, job: str, attempt: int | None) -> None:
        if self._show.wants_progress and (job, attempt) not in self._tails:
            self._tails[job, attempt] = trio.Event()
            nursery.start_soon(self._follow, step, job, attempt)

    async def _follow(self, step: str, job: str, attempt: int | None) -> None:
        try:
            async for chunk in self._link.follow_log(job, attempt=attempt, stream="progress"):
                for line in filter(None, chunk.text.split("\n")):
                    self._show.progress(step, _progress.decode(line))
        except NotFound as error:
            self._show.note(error.what)
        finally:
            self._tails[job, attempt].set()

    async def _tick(self) -> None:
        while True:
            self._show.tick()
            await trio.sleep(TICK_S)
