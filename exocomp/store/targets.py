"""The inventory that something is to run over, by name, as the ledger has it now."""

from __future__ import annotations

from datetime import UTC, datetime

from exocomp.errors import ExocompError, NotFound
from exocomp.model import Generation
from exocomp.store import inventories, rows
from exocomp.store.store import Store, Transaction

PREFIX = "tf:"
MAKER = f"SELECT {rows.WORKFLOW} FROM workflow WHERE id = ?"
WORKSPACE = "SELECT 1 FROM workspace WHERE name = ?"


def resolve(at: Store | Transaction, name: str) -> Generation:
    """The current generation; raises NotFound (unregistered, never materialized) or ExocompError (hostless)."""
    generation = inventories.find(at, name)
    if generation is None:
        raise absent(at, name)
    workspace = name.removeprefix(PREFIX) if name.startswith(PREFIX) else None
    if generation.hosts:
        return generation
    what = f"inventory {name} names no hosts (generation {generation.number})"
    if workspace is None:
        raise ExocompError(what, hint=f"add a file that names hosts: exocomp inventory add {name} <file>")
    made = at.row(MAKER, generation.workflow)
    if made is not None and (maker := rows.workflow(made)).kind == "destroy":
        when = datetime.fromtimestamp(generation.created_at, UTC).isoformat(timespec="seconds")
        raise ExocompError(
            f"{what}: workspace {workspace} was destroyed by {maker.id} at {when}",
            hint=f"exocomp workspace apply {workspace}, or remove what still targets it",
        )
    raise ExocompError(
        what, hint="give the module an `ansible_inventory` output that names hosts, then apply the workspace"
    )


def workspace_of(at: Store | Transaction, inventory: str) -> str | None:
    """The registered workspace that refreshes an inventory of this name."""
    name = inventory.removeprefix(PREFIX)
    return name if name != inventory and at.row(WORKSPACE, name) else None


def absent(at: Store | Transaction, name: str) -> NotFound:
    """Why there is no generation of it."""
    workspace = workspace_of(at, name)
    if workspace is not None:
        return NotFound(
            f"inventory {name} was never materialized",
            hint=f"apply the workspace first: exocomp workspace apply {workspace}",
        )
    if at.row(WORKSPACE, name):
        return NotFound(f"no inventory {name!r}", hint=f"the inventory of workspace {name} is called tf:{name}")
    return inventories.unknown(name)
