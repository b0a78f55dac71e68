"""`exocomp inventory`: standing inventories."""

from __future__ import annotations

import json
from typing import Annotated

from cyclopts import App, Parameter

from exocomp.cli import output, reading, views
from exocomp.cli.options import COMMON, Common
from exocomp.cli.render import clean
from exocomp.model import Host
from exocomp.protocol.queries import Inventories, InventoryView, ListInventories, ShowInventory

app = App(name="inventory")
Name = Annotated[str, Parameter(help="An inventory, as tf:edge.")]


@app.command(name="list")
def list_(*, common: Common = COMMON) -> int:
    """Every standing inventory, and whether its file still is what the ledger recorded.

    For example:
        exocomp inventory list
    """
    found = reading.ask(common, ListInventories(), Inventories)
    text = views.inventory_rows(found.inventories, width=output.width(), color=output.colored())
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
    view = reading.ask(common, ShowInventory(name=name, generation=generation), InventoryView)
    if hosts:
        output.emit(common, view.current.hosts, views.host_rows(view.current.hosts, width=output.width()))
    elif common.as_json:
        output.emit(common, view, "")
    else:
        from exocomp.cli import standing

        output.line(views.inventory(view))
        output.line("\n" + json.dumps(standing.content(view), indent=2))
    return 0


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

    new = reading.ask(common, ShowInventory(name=name, generation=to), InventoryView)
    earlier = [number for number in new.generations if number < new.current.number]
    if from_ is None and not earlier:
        output.emit(common, generations.Diff(), f"{clean(name)} has no generation before {new.current.number}")
        return 0
    number = from_ if from_ is not None else max(earlier)
    old = reading.ask(common, ShowInventory(name=name, generation=number), InventoryView)
    found = generations.diff(old.current, new.current)
    lines = [f"+ {_host(host)}" for host in found.joined] + [f"- {_host(host)}" for host in found.left]
    lines += [f"~ {_host(was)} → {_host(now)}" for was, now in found.moved]
    head = f"{clean(name)} generation {old.current.number} → {new.current.number}"
    output.emit(common, found, "\n".join([head, *(lines or ["no host changed"])]))
    return 0


def _host(host: Host) -> str:
    user = f"{host.user}@" if host.user else ""
    return clean(f"{host.name} {user}{host.address} port {host.port}")
