"""`exocomp inventory`: standing inventories."""

from __future__ import annotations

import json
from typing import Annotated

from cyclopts import App, Parameter

from exocomp.cli import doing, inventory_views, output, parse, reading
from exocomp.cli.options import COMMON, Common
from exocomp.cli.render import clean
from exocomp.cli.workspace import Yes
from exocomp.errors import NotFound, WrongUsage
from exocomp.model import Host
from exocomp.protocol.commands import AddInventory, Done, RemoveInventory
from exocomp.protocol.queries import Inventories, InventoryView, ListInventories, ShowInventory

app = App(name="inventory")
OF_WORKSPACES = "tf:"
Name = Annotated[str, Parameter(help="An inventory, as tf:edge or lab.")]


@app.command
def add(
    name: Annotated[str, Parameter(help="What to call it.")],
    file: Annotated[str, Parameter(help="An inventory file: YAML, JSON or INI.")],
    /,
    *,
    common: Common = COMMON,
) -> int:
    """Register an inventory file of your own, or take its new content when the name is there already.

    What is kept is a copy: later changes of the file do nothing until it is added again.

    For example:
        exocomp inventory add lab hosts.yml
        exocomp playbook run site.yml --inventory lab
    """
    if name.startswith(OF_WORKSPACES):
        hint = f"applies write it: exocomp workspace apply {name.removeprefix(OF_WORKSPACES)}; or choose another name"
        raise WrongUsage(f"inventory {name!r} is of a workspace", hint=hint)
    command = AddInventory(name=parse.name(name, "inventory"), file=str(parse.regular_file(file, "file")))
    done = doing.do(common, command, Done)
    output.emit(common, done, done.message)
    return 0


@app.command(name="list")
def list_(*, common: Common = COMMON) -> int:
    """Every standing inventory, and whether its file still is what the ledger recorded.

    For example:
        exocomp inventory list
    """
    found = reading.ask(common, ListInventories(), Inventories)
    text = inventory_views.inventory_rows(found.inventories, width=output.width(), color=output.colored())
    output.emit(common, found, text)
    return 0


@app.command
def show(
    name: Name,
    /,
    *,
    hosts: Annotated[bool, Parameter(help="The hosts as ansible would dial them.")] = False,
    generation: Annotated[int | None, Parameter(help="An earlier generation. Default: the current one.")] = None,
    common: Common = COMMON,
) -> int:
    """One inventory: its generation and its content, or its hosts.

    For example:
        exocomp inventory show tf:edge --hosts
        exocomp inventory show tf:edge --generation 3
    """
    view = _view(common, name, generation)
    if hosts:
        output.emit(common, view.current.hosts, inventory_views.host_rows(view.current.hosts, width=output.width()))
    elif common.as_json:
        output.emit(common, view, "")
    else:
        from exocomp.cli import standing

        output.line(inventory_views.inventory(view))
        output.line("\n" + json.dumps(standing.content(view), indent=2, default=str))
    return 0


def _view(common: Common, name: str, generation: int | None) -> InventoryView:
    """Raises NotFound; whoever named a workspace is told what its inventory is called."""
    try:
        return reading.ask(common, ShowInventory(name=name, generation=generation), InventoryView)
    except NotFound as error:
        known = {each.name for each in reading.ask(common, ListInventories(), Inventories).inventories}
        if name in known or f"{OF_WORKSPACES}{name}" not in known:
            raise
        hint = f"that of workspace {name}: exocomp inventory show {OF_WORKSPACES}{name}"
        raise NotFound(error.what, hint=hint) from None


@app.command
def diff(
    name: Name,
    /,
    *,
    from_: Annotated[int | None, Parameter(name="--from", help="Default: the one before --to.")] = None,
    to: Annotated[int | None, Parameter(help="Default: the current one.")] = None,
    common: Common = COMMON,
) -> int:
    """Which hosts joined, left, or are dialled otherwise between two generations.

    For example:
        exocomp inventory diff tf:edge
        exocomp inventory diff tf:edge --from 2 --to 5
    """
    from exocomp.inventory import generations

    new = _view(common, name, to)
    earlier = [number for number in new.generations if number < new.current.number]
    if from_ is None and not earlier:
        output.emit(common, generations.Diff(), f"{clean(name)} has no generation before {new.current.number}")
        return 0
    number = from_ if from_ is not None else max(earlier)
    old = _view(common, name, number)
    found = generations.diff(old.current, new.current)
    lines = [f"+ {_host(host)}" for host in found.joined] + [f"- {_host(host)}" for host in found.left]
    lines += [f"~ {_host(was)} → {_host(now)}" for was, now in found.moved]
    head = f"{clean(name)} generation {old.current.number} → {new.current.number}"
    output.emit(common, found, "\n".join([head, *(lines or ["no host changed"])]))
    return 0


def _host(host: Host) -> str:
    user = f"{host.user}@" if host.user else ""
    port = f" port {host.port}" if host.over_ssh else f" {host.connection}"
    return clean(f"{host.name} {user}{host.address}{port}")


@app.command
def remove(
    name: Name,
    /,
    *,
    force: Annotated[bool, Parameter(help="Even when schedules or rules target it: they will stand still.")] = False,
    yes: Yes = False,
    common: Common = COMMON,
) -> int:
    """Forget an inventory of your own and its generations; the file that it was added from stays.

    For example:
        exocomp inventory remove lab
        exocomp inventory remove lab --force --yes
    """
    if not output.confirm(f"remove inventory {name}", yes=yes):
        output.note("nothing was removed")
        return 1
    done = doing.do(common, RemoveInventory(name=name, force=force), Done)
    output.emit(common, done, done.message)
    return 0
