"""Standing inventories and their generations."""

from __future__ import annotations

import msgspec

from exocomp.errors import NotFound
from exocomp.model import Generation, Host
from exocomp.protocol.events import HostJoined, HostLeft, OutputsCaptured
from exocomp.protocol.mail import Captured
from exocomp.store import rows
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
USE = "UPDATE workflow SET generation = ? WHERE id = ?"


def capture(tx: Transaction, got: Captured, *, workflow: str, workspace: str, standing: str, message: str) -> None:
    """Record a captured content as the current generation; the same content again keeps its number."""
    current = _fetch(tx, got.inventory, None)
    changed = current is None or current.digest != got.digest
    if current is None or changed:
        last = tx.row(LAST, got.inventory)
        number = (last[0] if last else 0) + 1
        tx.run(PUT, got.inventory, workspace, standing, number)
        hosts = msgspec.json.encode(got.hosts).decode()
        tx.run(ADD, got.inventory, number, got.path, got.digest, hosts, tx.now, workflow)
    else:
        number = current.number
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
        )
    )
    before = {host.name for host in current.hosts} if current else set()
    after = {host.name for host in got.hosts}
    for name in (host.name for host in got.hosts if host.name not in before):
        tx.event(HostJoined(workflow=workflow, workspace=workspace, inventory=got.inventory, host=name))
    for name in sorted(before - after):
        tx.event(HostLeft(workflow=workflow, workspace=workspace, inventory=got.inventory, host=name))


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


def find(store: Store, name: str, number: int | None = None) -> Generation | None:
    return _fetch(store, name, number)


def unknown(name: str) -> NotFound:
    return NotFound(
        f"no inventory {name!r}",
        hint="see `exocomp inventory list`; a workspace gets its inventory by its first apply",
    )


def _fetch(at: Store | Transaction, name: str, number: int | None) -> Generation | None:
    if number is not None and not 0 < number < 2**63:  # more than an INTEGER holds
        return None
    row = at.row(CURRENT, name, number)
    return rows.generation(row) if row else None
