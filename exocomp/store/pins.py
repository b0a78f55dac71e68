"""Recorded host keys."""

from __future__ import annotations

from collections.abc import Iterable

from exocomp.errors import Conflict, NotFound
from exocomp.model import Pin
from exocomp.protocol.events import HostPinned, PinForgotten
from exocomp.store import rows
from exocomp.store.store import Store, Transaction

ALL = f"SELECT {rows.PIN} FROM pin ORDER BY name, key_type"
OF = f"SELECT {rows.PIN} FROM pin WHERE name = ? ORDER BY key_type"
ADD = "INSERT INTO pin (name, key_type, key, trust, pinned_at, fingerprint, workflow) VALUES (?, ?, ?, ?, ?, ?, ?)"
FORGET = "DELETE FROM pin WHERE name = ?"


def record(tx: Transaction, pins: Iterable[Pin], *, workspace: str | None = None) -> None:
    """Add pins that are not recorded yet; raises Conflict rather than replace a key (one-way trust)."""
    for pin in pins:
        known = {p.key_type: p.key for p in map(rows.pin, tx.rows(OF, pin.name))}
        if known.get(pin.key_type) == pin.key:
            continue
        if pin.key_type in known:
            raise Conflict(
                f"{pin.name} has another {pin.key_type} key on record", hint="exocomp host onboard --rotate"
            )
        tx.run(ADD, pin.name, pin.key_type, pin.key, pin.trust.value, tx.now, pin.fingerprint, pin.workflow)
        tx.event(
            HostPinned(
                workflow=pin.workflow,
                workspace=workspace,
                name=pin.name,
                key_type=pin.key_type,
                fingerprint=pin.fingerprint,
                trust=pin.trust,
            )
        )


def pin(store: Store, name: str, pins: Iterable[Pin], *, rotate: bool) -> None:
    """An operator's pin; with `rotate` it replaces everything recorded under `name`."""
    with store.transaction("pin_host") as tx:
        if rotate and tx.run(FORGET, name):
            tx.event(PinForgotten(name=name))
        record(tx, pins)


def forget(store: Store, name: str) -> None:
    """Raises NotFound."""
    with store.transaction("forget_host") as tx:
        if not tx.run(FORGET, name):
            raise NotFound(f"no host key is recorded for {name!r}", hint="see `exocomp host known-hosts list`")
        tx.event(PinForgotten(name=name))


def of(store: Store, name: str) -> tuple[Pin, ...]:
    return tuple(map(rows.pin, store.rows(OF, name)))


def every(store: Store) -> tuple[Pin, ...]:
    return tuple(map(rows.pin, store.rows(ALL)))
