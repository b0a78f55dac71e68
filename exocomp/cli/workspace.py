"""`exocomp workspace`: registered root modules."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from exocomp.cli import doing, output, parse, reading, views
from exocomp.cli.following import begin
from exocomp.cli.options import COMMON, Common
from exocomp.cli.provision import NoBlock, RequireApproval, Wait
from exocomp.cli.work import AllowDestroy
from exocomp.errors import ExocompError
from exocomp.model import RunOptions, Workspace
from exocomp.protocol.commands import AddWorkspace, Done, RemoveWorkspace, StartWorkflow
from exocomp.protocol.queries import (
    InventoryView,
    ListWorkspaces,
    ShowInventory,
    ShowWorkspace,
    Workspaces,
    WorkspaceView,
)

app = App(name="workspace")
Name = Annotated[str, Parameter(help="A registered workspace.")]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.")]


@app.command
def add(
    name: Annotated[str, Parameter(help="What to call it.")],
    directory: Annotated[str, Parameter(help="The root module's directory.")],
    /,
    *,
    engine: Annotated[Literal["tofu", "terraform"] | None, Parameter(help="Default: tofu when present.")] = None,
    var_file: Annotated[tuple[str, ...], Parameter(help="A file of variables; may repeat.")] = (),
    var: Annotated[tuple[str, ...], Parameter(help="KEY=VALUE; may repeat.")] = (),
    root: Annotated[
        str | None, Parameter(help="The directory to stage, for modules that reach above DIRECTORY.")
    ] = None,
    egress: Annotated[
        tuple[int, ...], Parameter(help="A TCP port beside 443 that its engine may connect to; may repeat.")
    ] = (),
    adopt_state: Annotated[bool, Parameter(help="Take over the state file that lies in DIRECTORY.")] = False,
    common: Common = COMMON,
) -> int:
    """Register a root module. Its directory is only read: what runs is a staged copy.

    For example:
        exocomp workspace add edge ./infra/edge
        exocomp workspace add edge ./infra/edge --var-file prod.tfvars
        exocomp workspace add edge ./infra/edge --var region=eu --egress 8443
    """
    module = parse.directory(directory, "directory")
    workspace = Workspace(
        name=parse.name(name, "workspace"),
        directory=str(module),
        root=str(parse.directory(root, "--root")) if root else "",
        engine=engine,
        var_files=tuple(str(parse.regular_file(file, "--var-file")) for file in var_file),
        variables=parse.pairs(var, "--var"),
        egress=parse.ports(egress),
    )
    done = doing.do(common, AddWorkspace(workspace=workspace, adopt_state=adopt_state), Done)
    output.emit(common, done, done.message)
    return 0


@app.command(name="list")
def list_(*, common: Common = COMMON) -> int:
    """Every workspace, its last apply and how many hosts it has. Works with the daemon down.

    For example:
        exocomp workspace list
    """
    found = reading.ask(common, ListWorkspaces(), Workspaces)
    text = views.workspace_rows(found.workspaces, width=output.width(), color=output.colored())
    output.emit(common, found, text)
    return 0


@app.command
def show(name: Name, /, *, common: Common = COMMON) -> int:
    """One workspace. Works with the daemon down.

    For example:
        exocomp workspace show edge
    """
    view = reading.ask(common, ShowWorkspace(name=name), WorkspaceView)
    output.emit(common, view, views.workspace(view))
    return 0


@app.command
def plan(name: Name, /, *, wait: Wait = False, common: Common = COMMON) -> int:
    """Say what an apply would change; changes nothing.

    For example:
        exocomp workspace plan edge --wait
    """
    return begin(common, StartWorkflow(kind="plan", workspace=name), wait=wait)


@app.command
def apply(
    name: Name,
    /,
    *,
    require_approval: RequireApproval = False,
    allow_destroy: AllowDestroy = False,
    wait: Wait = False,
    no_block: NoBlock = False,
    common: Common = COMMON,
) -> int:
    """Plan, apply that plan, and refresh the standing inventory tf:NAME.

    A plan that destroys or replaces anything waits for a decision, unless --allow-destroy says that it may.

    For example:
        exocomp workspace apply edge --wait
        exocomp workspace apply edge --require-approval --wait --no-block
        exocomp workspace apply edge --allow-destroy
    """
    options = RunOptions(require_approval=require_approval, allow_destroy=allow_destroy)
    return begin(common, StartWorkflow(kind="apply", workspace=name, options=options), wait=wait, block=not no_block)


@app.command
def destroy(
    name: Name,
    /,
    *,
    yes: Yes = False,
    require_approval: RequireApproval = False,
    wait: Wait = False,
    no_block: NoBlock = False,
    common: Common = COMMON,
) -> int:
    """Destroy everything that the workspace made.

    For example:
        exocomp workspace destroy edge --wait
        exocomp workspace destroy edge --yes
    """
    if not output.confirm(f"destroy every resource of workspace {name}", yes=yes):
        output.note("nothing was destroyed")
        return 1
    options = RunOptions(require_approval=require_approval)
    return begin(
        common, StartWorkflow(kind="destroy", workspace=name, options=options), wait=wait, block=not no_block
    )


@app.command
def outputs(name: Name, /, *, common: Common = COMMON) -> int:
    """What the last apply's outputs became in the standing inventory; sensitive ones are never in it.

    For example:
        exocomp workspace outputs edge
        exocomp workspace outputs edge --json
    """
    from exocomp.cli import standing

    reading.ask(common, ShowWorkspace(name=name), WorkspaceView)
    view = reading.ask(common, ShowInventory(name=f"tf:{name}"), InventoryView)
    if not view.sound:
        raise ExocompError(f"{view.file} is altered or lost", hint=f"exocomp workspace apply {name}")
    content = standing.content(view)
    output.emit(common, content, standing.text(view, content))
    return 0


@app.command
def remove(
    name: Name,
    /,
    *,
    force: Annotated[bool, Parameter(help="Even when its state still holds resources: they are forgotten.")] = False,
    yes: Yes = False,
    common: Common = COMMON,
) -> int:
    """Unregister a workspace and its standing inventory; destroys no resource.

    For example:
        exocomp workspace remove edge
        exocomp workspace remove edge --force --yes
    """
    if not output.confirm(f"remove workspace {name}", yes=yes):
        output.note("nothing was removed")
        return 1
    done = doing.do(common, RemoveWorkspace(name=name, force=force), Done)
    output.emit(common, done, done.message)
    return 0
