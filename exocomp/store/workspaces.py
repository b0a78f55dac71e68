"""Registered workspaces."""

from __future__ import annotations

import msgspec

from exocomp.errors import Conflict, NotFound
from exocomp.model import Workspace
from exocomp.protocol.events import WorkspaceAdded, WorkspaceRemoved
from exocomp.store import inventories, rows
from exocomp.store.store import Store

ALL = "SELECT spec FROM workspace ORDER BY name"
ONE = "SELECT spec FROM workspace WHERE name = ?"
ADD = "INSERT INTO workspace (name, spec, created_at) VALUES (?, ?, ?)"
REMOVE = "DELETE FROM workspace WHERE name = ?"
BUSY = "SELECT id FROM workflow WHERE workspace = ? AND state = 'running' LIMIT 1"
RETIRE = "DELETE FROM inventory WHERE workspace = ?"


def add(store: Store, workspace: Workspace) -> None:
    """Raises Conflict when the name is taken."""
    with store.transaction("add_workspace") as tx:
        if tx.row(ONE, workspace.name):
            raise Conflict(
                f"workspace {workspace.name!r} exists already",
                hint=f"see `exocomp workspace show {workspace.name}`, or choose another name",
            )
        workspace = msgspec.structs.replace(workspace, created_at=tx.now)
        tx.run(ADD, workspace.name, msgspec.json.encode(workspace).decode(), tx.now)
        tx.event(WorkspaceAdded(workspace=workspace.name, directory=workspace.directory))


def remove(store: Store, name: str, *, force: bool = False) -> None:
    """Forget the workspace and its standing inventory.

    Raises Conflict while a workflow runs over it, or schedules or rules target it, unless forced.
    """
    with store.transaction("remove_workspace") as tx:
        if not tx.row(ONE, name):
            raise unknown(name)
        if busy := tx.row(BUSY, name):
            raise Conflict(
                f"workspace {name!r} is in use by {busy[0]}",
                hint=f"wait for it, or `exocomp provision cancel {busy[0]}`",
            )
        inventories.untargeted(tx, f"tf:{name}", name, force=force)
        tx.run(RETIRE, name)
        tx.run(REMOVE, name)
        tx.event(WorkspaceRemoved(workspace=name))


def every(store: Store) -> tuple[Workspace, ...]:
    return tuple(map(rows.workspace, store.rows(ALL)))


def get(store: Store, name: str) -> Workspace:
    """Raises NotFound."""
    row = store.row(ONE, name)
    if row is None:
        raise unknown(name)
    return rows.workspace(row)


def unknown(name: str) -> NotFound:
    return NotFound(
        f"no workspace {name!r}", hint="see `exocomp workspace list`, or register one: exocomp workspace add"
    )
