"""Standing inventories and their generations."""

from __future__ import annotations

import msgspec

from exocomp.errors import Conflict, NotFound
from exocomp.model import Generation, Host
from exocomp.protocol.events import HostJoined, HostLeft, InventoryAdded, InventoryRemoved, OutputsCaptured
from exocomp.protocol.mail import Captured
from exocomp.store import rows, rules, schedules
from exocomp.store.store import Store, Transaction

NAMES = "SELECT name, standing FROM inventory ORDER BY name"
STANDING = "SELECT standing FROM inventory WHERE name = ?"
NUMBERS = "SELECT number FROM generation WHERE inventory = ? ORDER BY number"
CURRENT = f"""
SELECT {rows.GENERATION} FROM generation
WHERE inventory = ?1 AND number = coalesce(?2, (SELECT number FROM inventory WHERE name = ?1))
"""
PUT = """
INSERT INTO inventory (name, workspace, standing, number) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (name) DO UPDATE SET standing = ?3, number = ?4
"""
ADD = f"INSERT INTO generation ({rows.GENERATION}) VALUES (?, ?, ?, ?, ?, ?, ?)"
LAST = "SELECT coalesce(max(number), 0) FROM generation WHERE inventory = ?"
OWNER = "SELECT workspace FROM inventory WHERE name = ?"
REMOVE = "DELETE FROM inventory WHERE name = ?"
FORGET_HOST = "DELETE FROM host_state WHERE inventory = ? AND host = ?"
USE = "UPDATE workflow SET generation = ? WHERE id = ?"


def capture(
    tx: Transaction,
    got: Captured,
    *,
    verb: str = "apply",
    workflow: str,
    workspace: str,
    standing: str,
    message: str,
) -> None:
    """Record what an apply captured as the current generation; the same content again keeps its number."""
    before = _fetch(tx, got.inventory, None)
    number, changed = _put(tx, got, before, standing, workflow=workflow, workspace=workspace)
    tx.run(USE, number, workflow)
    tx.event(
        OutputsCaptured(
            workflow=workflow,
            workspace=workspace,
            inventory=got.inventory,
            generation=number,
            path=standing,
            outputs=got.outputs,
            hosts=len(got.hosts),
            message=message,
            changed=changed,
            verb=verb,
        )
    )
    _tell_hosts(tx, got, before, workflow=workflow, workspace=workspace)


def take(store: Store, got: Captured, standing: str) -> tuple[int, bool]:
    """Record a file of the operator's as the current generation: its number, and whether it changed."""
    with store.transaction("add_inventory") as tx:
        before = _fetch(tx, got.inventory, None)
        number, changed = _put(tx, got, before, standing)
        tx.event(InventoryAdded(inventory=got.inventory, generation=number, hosts=len(got.hosts), changed=changed))
        _tell_hosts(tx, got, before)
    return number, changed


def _put(
    tx: Transaction,
    got: Captured,
    current: Generation | None,
    standing: str,
    *,
    workflow: str | None = None,
    workspace: str | None = None,
) -> tuple[int, bool]:
    if current is not None and current.digest == got.digest:
        return current.number, False
    last = tx.row(LAST, got.inventory)
    number = (last[0] if last else 0) + 1
    tx.run(PUT, got.inventory, workspace, standing, number)
    hosts = msgspec.json.encode(got.hosts).decode()
    tx.run(ADD, got.inventory, number, got.path, got.digest, hosts, tx.now, workflow)
    return number, True


def _tell_hosts(
    tx: Transaction,
    got: Captured,
    current: Generation | None,
    *,
    workflow: str | None = None,
    workspace: str | None = None,
) -> None:
    before = {host.name: host for host in current.hosts} if current else {}
    after = {host.name: host for host in got.hosts}
    for name in (name for name in after if name not in before):
        tx.event(HostJoined(workflow=workflow, workspace=workspace, inventory=got.inventory, host=name))
    for name in (name for name in before if name not in after):
        tx.event(HostLeft(workflow=workflow, workspace=workspace, inventory=got.inventory, host=name))
    for name, was in before.items():
        now = after.get(name)
        if now is None or (was.address, was.port) != (now.address, now.port):
            tx.run(FORGET_HOST, got.inventory, name)  # what plays told was of another machine


def remove(store: Store, name: str, *, force: bool) -> None:
    """Forget an inventory of the operator's with its generations; raises NotFound or Conflict."""
    with store.transaction("remove_inventory") as tx:
        row = tx.row(OWNER, name)
        if row is None:
            raise unknown(name)
        if row[0] is not None:
            raise Conflict(
                f"inventory {name} is refreshed by workspace {row[0]}",
                hint=f"it goes with it: exocomp workspace remove {row[0]}",
            )
        untargeted(tx, name, force=force)
        tx.run(REMOVE, name)
        tx.event(InventoryRemoved(inventory=name))


def untargeted(tx: Transaction, name: str, workspace: str = "", *, force: bool) -> None:
    """Raises Conflict while schedules or rules target the inventory (or the workspace), unless forced."""
    for noun, listed in (("schedule", schedules.targeting), ("playbook rule", rules.targeting)):
        if (found := listed(tx, name, workspace)) and not force:
            kind = noun.rpartition(" ")[2]
            raise Conflict(
                f"{workspace or name} is the target of {kind} {', '.join(found)}",
                hint=f"exocomp {noun} remove {found[0]} first, or add --force: then they fail closed",
            )


def names(store: Store) -> list[tuple[str, str]]:
    """(name, standing file) of each inventory."""
    return [(name, standing) for name, standing in store.rows(NAMES)]


def standing(store: Store, name: str) -> str:
    """Path of the standing file; raises NotFound."""
    row = store.row(STANDING, name)
    if row is None:
        raise unknown(name)
    return str(row[0])


def numbers(store: Store, name: str) -> tuple[int, ...]:
    return tuple(number for (number,) in store.rows(NUMBERS, name))


def get(store: Store, name: str, number: int | None = None) -> Generation:
    """One generation, the current one by default; raises NotFound."""
    found = _fetch(store, name, number)
    if found is None:
        if number is not None and numbers(store, name):
            raise NotFound(
                f"inventory {name} has no generation {number}", hint=f"see `exocomp inventory show {name}`"
            )
        raise unknown(name)
    return found


def host_named(store: Store, name: str) -> Host | None:
    """The host of that name in a standing inventory, the first by inventory name."""
    for inventory, _ in names(store):
        for host in get(store, inventory).hosts:
            if host.name == name:
                return host
    return None


def find(at: Store | Transaction, name: str, number: int | None = None) -> Generation | None:
    return _fetch(at, name, number)


def unknown(name: str) -> NotFound:
    return NotFound(
        f"no inventory {name!r}",
        hint="see `exocomp inventory list`; a first apply makes one, and `exocomp inventory add NAME FILE`",
    )


def _fetch(at: Store | Transaction, name: str, number: int | None) -> Generation | None:
    if number is not None and not 0 < number < 2**63:  # more than an INTEGER holds
        return None
    row = at.row(CURRENT, name, number)
    return rows.generation(row) if row else None
