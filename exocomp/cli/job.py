"""`exocomp job`: single jobs."""

from __future__ import annotations

import time
from typing import Annotated

from cyclopts import App, Parameter

from exocomp.cli import doing, output, parse, reading, views
from exocomp.cli.options import COMMON, Common
from exocomp.protocol.commands import CancelWorkflow, Done
from exocomp.protocol.queries import Jobs, JobView, ListJobs, ShowJob

app = App(name="job")
Id = Annotated[str, Parameter(help="A job id, or a unique part of its beginning or end.")]


@app.command(name="list")
def list_(
    *,
    workflow: Annotated[str | None, Parameter(help="Only those of this workflow.")] = None,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many at most.")] = 20,
    common: Common = COMMON,
) -> int:
    """Jobs, newest first. Works with the daemon down.

    For example:
        exocomp job list
        exocomp job list --workflow wf_06f2
    """
    found = reading.ask(common, ListJobs(workflow=workflow, limit=parse.count(limit, "--limit")), Jobs)
    text = views.job_rows(found.jobs, now=time.time(), width=output.width(), color=output.colored())
    output.emit(common, found, text)
    return 0


@app.command
def show(id: Id, /, *, common: Common = COMMON) -> int:
    """One job: its attempts, and how each host fared. Works with the daemon down.

    For example:
        exocomp job show job_06f2
    """
    view = reading.ask(common, ShowJob(id=id), JobView)
    output.emit(common, view, views.job(view, now=time.time(), width=output.width(), color=output.colored()))
    return 0


@app.command
def logs(
    id: Id,
    /,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], help="Go on until the attempt ends.")] = False,
    attempt: Annotated[int | None, Parameter(help="Which try. Default: the latest.")] = None,
    raw: Annotated[bool, Parameter(help="The lines as the tool wrote them.")] = False,
    common: Common = COMMON,
) -> int:
    """What the job's tool printed. Without --follow it works with the daemon down.

    For example:
        exocomp job logs job_06f2
        exocomp job logs job_06f2 -f
    """
    from exocomp.cli import logs as of

    if follow:
        return of.follow_job(common, id, attempt, raw=raw)
    return of.print_job(common, reading.ask(common, ShowJob(id=id), JobView), attempt, raw=raw)


@app.command
def cancel(id: Id, /, *, common: Common = COMMON) -> int:
    """Cancel a job together with the workflow that it belongs to.

    For example:
        exocomp job cancel job_06f2
    """
    view = reading.ask(common, ShowJob(id=id), JobView)
    done = doing.do(common, CancelWorkflow(id=view.job.workflow), Done)
    output.emit(common, done, done.message)
    return 0
