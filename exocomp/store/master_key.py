"""Which master key sealed what lies sealed, by its id."""

from __future__ import annotations

from exocomp.store.store import Store

KNOWN = "SELECT id FROM master_key"
ADD = "INSERT INTO master_key (id, since) VALUES (?, ?)"


def known(store: Store) -> str | None:
    row = store.row(KNOWN)
    return row[0] if row else None


def record(store: Store, id: str) -> None:
    """Before anything is sealed with it; nothing happens when it is known."""
    if known(store) is None:
        with store.transaction("record_master_key") as tx:
            tx.run(ADD, id, tx.now)
