"""`exocomp events`: the one sequence of what happened."""

from __future__ import annotations

import time
from typing import Annotated

from cyclopts import Parameter

from exocomp.cli import doing, output, parse, reading
from exocomp.cli.lines import event_line
from exocomp.cli.options import COMMON, Common
from exocomp.protocol.events import Recorded
from exocomp.protocol.queries import Events, ListEvents, ShowWorkflow, WorkflowView

PAGE = 1000


def events(
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], help="Go on with what happens.")] = False,
    since: Annotated[
        str | None, Parameter(help="After this event number, or from this time on, or 10m for ten minutes ago.")
    ] = None,
    workflow: Annotated[str | None, Parameter(help="Only those of this workflow.")] = None,
    common: Common = COMMON,
) -> int:
    """Events, oldest first; with --json one a line. Without --follow it works with the daemon down.

    With --follow and no --since: only what happens from now on.

    For example:
        exocomp events --since 10m
        exocomp events --follow --workflow wf_06f2 --json
        exocomp events --since 2026-01-31T12:00:00+01:00
    """
    after, at = (0, None) if since is None else parse.since(since, time.time())
    if workflow is not None:
        workflow = reading.ask(common, ShowWorkflow(id=workflow), WorkflowView).workflow.id
    if follow and since is None:
        return doing.run(_follow, common, None, workflow)
    last = after
    while True:
        query = ListEvents(since=last, since_at=at, workflow=workflow, limit=PAGE)
        page = reading.ask(common, query, Events).events
        for recorded in page:
            _print(common, recorded)
            last, at = recorded.seq, None
        if len(page) < PAGE:
            break
    return doing.run(_follow, common, last, workflow) if follow else 0


def _print(common: Common, recorded: Recorded) -> None:
    if common.as_json:
        output.line(output.to_json(recorded).decode())
    else:
        output.line(f"{recorded.seq:>6}  {event_line(recorded, color=output.colored(), dated=True)}")


async def _follow(common: Common, after: int | None, workflow: str | None) -> int:
    from exocomp.cli.lasting import Link, stay_connected
    from exocomp.cli.live import DETACHED, until_interrupt

    async def copy(link: Link, since: int) -> None:
        async for recorded in link.follow(since=since, workflow=workflow):
            _print(common, recorded)

    async with stay_connected(common.socket_file, note=lambda text: output.note(f"note: {text}")) as link:
        since = (await link.client()).since if after is None else after
        stopped = await until_interrupt(copy, link, since)
    return DETACHED if stopped else 0
