"""`exocomp provision`: the four-step chain."""

from __future__ import annotations

import time
from typing import Annotated

from cyclopts import App, Parameter

from exocomp.cli import doing, output, parse, reading, views
from exocomp.cli.following import begin
from exocomp.cli.following import watch as watch_it
from exocomp.cli.options import COMMON, PLAY_FLAGS, Common, PlayFlags
from exocomp.errors import Bug
from exocomp.protocol.commands import CancelWorkflow, Done, RetryWorkflow, StartWorkflow
from exocomp.protocol.queries import ListWorkflows, ShowWorkflow, Workflows, WorkflowView

app = App(name="provision")
KIND = "provision"
CHAINS = ("provision", "handoff")
LISTED = (*CHAINS, "play")

NoBlock = Annotated[
    bool,
    Parameter(name="--no-block", help="With --wait: exit with 4 when it waits for an approval."),
]
RequireApproval = Annotated[
    bool, Parameter(help="Apply nothing before a person has decided on the plan: exocomp approval decide.")
]
Wait = Annotated[bool, Parameter(help="Stay until it ends and exit with its result; Ctrl-C only detaches.")]
Id = Annotated[str, Parameter(help="A workflow id, a unique part of its beginning or end, or latest.")]


@app.command
def run(
    workspace: Annotated[str, Parameter(help="A registered workspace.")],
    playbook: Annotated[str, Parameter(help="The play that configures the hosts.")],
    /,
    *,
    ssh_wait: Annotated[str, Parameter(help="How long to wait for every host's ssh: 90s, 5m, 1h30m.")] = "5m",
    onboard_playbook: Annotated[str | None, Parameter(help="Instead of the seeded onboarding runbook.")] = None,
    require_approval: RequireApproval = False,
    wait: Wait = False,
    no_block: NoBlock = False,
    play: PlayFlags = PLAY_FLAGS,
    common: Common = COMMON,
) -> int:
    """Apply a workspace, wait for its hosts, pin and onboard them, run the play.

    For example:
        exocomp provision run edge site.yml --wait
        exocomp provision run edge site.yml --ssh-identity ~/.ssh/id_ed25519
        exocomp provision run edge site.yml --ssh-wait 10m -e '{"region": "eu"}'
    """
    command = StartWorkflow(
        kind=KIND,
        workspace=workspace,
        playbook=str(parse.regular_file(playbook, "playbook")),
        options=parse.run_options(
            play, ssh_wait=ssh_wait, onboard_playbook=onboard_playbook, require_approval=require_approval
        ),
    )
    return begin(common, command, wait=wait, block=not no_block)


@app.command
def status(id: Id = "latest", /, *, common: Common = COMMON) -> int:
    """The ledger view: a row a step with its state, tries, job and duration, and the hosts inside.

    Works with the daemon down. Without an id: the latest provision.

    For example:
        exocomp provision status
        exocomp provision status wf_06f2 --json
    """
    return show_status(common, id, KIND)


def show_status(common: Common, id: str, kind: str) -> int:
    """The ledger view of a workflow; "latest" means the latest of `kind`."""
    view = reading.ask(common, ShowWorkflow(id=id, kinds=(kind,) if id == "latest" else ()), WorkflowView)
    output.emit(common, view, views.ledger(view, now=time.time(), width=output.width(), color=output.colored()))
    return 0


def _kinds(id: str) -> tuple[str, ...]:
    """The latest is the latest chain, not a plan or an apply that somebody started after it."""
    return CHAINS if id == "latest" else ()


def _named(common: Common, id: str) -> str:
    if id != "latest":
        return id
    view = doing.ask(common, ShowWorkflow(id=id, kinds=_kinds(id)))
    if not isinstance(view, WorkflowView):
        raise Bug(f"ShowWorkflow was answered by {type(view).__name__}")
    return view.workflow.id


@app.command(name="list")
def list_(
    *,
    workspace: Annotated[str | None, Parameter(help="Only those of this workspace.")] = None,
    inventory: Annotated[str | None, Parameter(help="Only those whose plays run over this inventory.")] = None,
    origin: Annotated[str | None, Parameter(help="Only what this started: schedule:NAME or rule:NAME.")] = None,
    every: Annotated[
        bool, Parameter(name="--all", help="Plans, applies and destroys of workspaces as well.")
    ] = False,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many at most.")] = 20,
    common: Common = COMMON,
) -> int:
    """Chains and plays, newest first. Works with the daemon down.

    For example:
        exocomp provision list
        exocomp provision list --workspace edge -n 5
        exocomp provision list --origin schedule:fleet-converge
    """
    query = ListWorkflows(
        kinds=() if every or origin is not None else LISTED,
        workspace=workspace,
        inventory=inventory,
        origin=origin,
        limit=parse.count(limit, "--limit"),
    )
    found = reading.ask(common, query, Workflows)
    text = views.workflow_rows(found.workflows, now=time.time(), width=output.width(), color=output.colored())
    output.emit(common, found, text)
    return 0


@app.command
def logs(
    id: Id = "latest",
    /,
    *,
    step: Annotated[str | None, Parameter(help="One step: its name, or the number of its row.")] = None,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], help="Go on until the workflow ends.")] = False,
    raw: Annotated[bool, Parameter(help="The lines as the tool wrote them.")] = False,
    common: Common = COMMON,
) -> int:
    """What the tools printed, step by step. Without --follow it works with the daemon down.

    For example:
        exocomp provision logs
        exocomp provision logs wf_06f2 --step apply -f
    """
    from exocomp.cli import logs

    if follow:
        return logs.follow_workflow(common, _named(common, id), step, raw=raw)
    view = reading.ask(common, ShowWorkflow(id=id, kinds=_kinds(id)), WorkflowView)
    return logs.print_workflow(common, view, step, raw=raw)


@app.command
def watch(id: Id = "latest", /, *, no_block: NoBlock = False, common: Common = COMMON) -> int:
    """Watch a workflow to its end and exit with its result; Ctrl-C only detaches.

    For example:
        exocomp provision watch
        exocomp provision watch wf_06f2 --json
    """
    return watch_it(common, None, _named(common, id), block=not no_block)


@app.command
def cancel(id: Id, /, *, common: Common = COMMON) -> int:
    """Cancel a workflow: what runs is interrupted and may save its state, the rest is not started.

    For example:
        exocomp provision cancel wf_06f2
    """
    done = doing.do(common, CancelWorkflow(id=_named(common, id)), Done)
    output.emit(common, done, done.message)
    return 0


@app.command
def retry(
    id: Id = "latest",
    /,
    *,
    from_: Annotated[str | None, Parameter(name="--from", help="The step to begin with.")] = None,
    wait: Wait = False,
    no_block: NoBlock = False,
    common: Common = COMMON,
) -> int:
    """Run again from the first step that did not succeed, or from the step named.

    For example:
        exocomp provision retry wf_06f2 --wait
        exocomp provision retry wf_06f2 --from configure
    """
    return begin(common, RetryWorkflow(id=_named(common, id), from_step=from_), wait=wait, block=not no_block)
