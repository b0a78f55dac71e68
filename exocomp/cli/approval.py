"""`exocomp approval`: the decisions that plans wait for."""

from __future__ import annotations

import time
from typing import Annotated

from cyclopts import App, Parameter

from exocomp.approval import ApprovalState
from exocomp.cli import approval_views, doing, output, parse, reading
from exocomp.cli.options import COMMON, Common
from exocomp.errors import WrongUsage
from exocomp.protocol.approving import Approvals, ApprovalView, DecideApproval, ListApprovals, ShowApproval
from exocomp.protocol.commands import Done

app = App(name="approval")
Id = Annotated[str, Parameter(help="An approval's id, or a unique part of its beginning or end.")]


@app.command(name="list")
def list_(
    *,
    every: Annotated[bool, Parameter(name="--all", help="Those that were decided, or are void, as well.")] = False,
    workflow: Annotated[str | None, Parameter(help="Only those of this workflow, by its full id.")] = None,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many at most.")] = 20,
    common: Common = COMMON,
) -> int:
    """What waits for a decision, newest first. Works with the daemon down.

    For example:
        exocomp approval list
        exocomp approval list --all --json
    """
    query = ListApprovals(
        state=None if every else ApprovalState.OPEN, workflow=workflow, limit=parse.count(limit, "--limit")
    )
    found = reading.ask(common, query, Approvals)
    text = approval_views.rows(found.approvals, now=time.time(), width=output.width(), color=output.colored())
    output.emit(common, found, text)
    return 0


@app.command
def show(id: Id, /, *, common: Common = COMMON) -> int:
    """All that is asked: what the plan changes, which hosts join and leave, what runs after it.

    Works with the daemon down.

    For example:
        exocomp approval show ap_06f2
        exocomp approval show ap_06f2 --json
    """
    view = reading.ask(common, ShowApproval(id=id), ApprovalView)
    output.emit(common, view, approval_views.question(view.approval, now=time.time(), color=output.colored()))
    return 0


@app.command
def decide(
    id: Id,
    /,
    *,
    approve: Annotated[bool, Parameter(help="Apply exactly the plan that was shown.")] = False,
    reject: Annotated[bool, Parameter(help="Apply nothing; the workflow ends as cancelled.")] = False,
    reason: Annotated[str, Parameter(help="Why, for the record.")] = "",
    common: Common = COMMON,
) -> int:
    """Approve or reject. The first decision stands; a plan that is stale by now is not applied but void.

    For example:
        exocomp approval decide ap_06f2 --approve
        exocomp approval decide ap_06f2 --reject --reason 'not on a Friday'
    """
    if approve == reject:
        raise WrongUsage(f"approval {id}: give one of --approve and --reject", hint=f"exocomp approval show {id}")
    done = doing.do(common, DecideApproval(id=id, approve=approve, reason=reason), Done)
    output.emit(common, done, done.message)
    return 0
