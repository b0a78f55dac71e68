"""`exocomp handoff`: the two-step chain."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from exocomp.cli import parse
from exocomp.cli.following import begin
from exocomp.cli.options import COMMON, PLAY_FLAGS, Common, PlayFlags
from exocomp.cli.provision import Id, NoBlock, RequireApproval, Wait, show_status
from exocomp.protocol.commands import StartWorkflow

app = App(name="handoff")
KIND = "handoff"


@app.command
def run(
    workspace: Annotated[str, Parameter(help="A registered workspace.")],
    playbook: Annotated[str, Parameter(help="The play that configures the hosts.")],
    /,
    *,
    require_approval: RequireApproval = False,
    wait: Wait = False,
    no_block: NoBlock = False,
    play: PlayFlags = PLAY_FLAGS,
    common: Common = COMMON,
) -> int:
    """Apply a workspace, then run the play over its hosts, which are already pinned.

    For example:
        exocomp handoff run edge site.yml --wait
    """
    command = StartWorkflow(
        kind=KIND,
        workspace=workspace,
        playbook=str(parse.regular_file(playbook, "playbook")),
        options=parse.run_options(play, require_approval=require_approval),
    )
    return begin(common, command, wait=wait, block=not no_block)


@app.command
def status(id: Id = "latest", /, *, common: Common = COMMON) -> int:
    """The ledger view. Works with the daemon down; without an id: the latest handoff.

    For example:
        exocomp handoff status
    """
    return show_status(common, id, KIND)
