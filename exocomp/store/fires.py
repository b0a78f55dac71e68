"""Fires of schedules and rules: each with what became of it."""

from __future__ import annotations

import msgspec

from exocomp.model import Fire, Outcome
from exocomp.store.rows import Row
from exocomp.store.store import Store, Transaction

COLUMNS = "source, name, at, outcome, due_at, event, workflow, reason, hint"
ADD = f"INSERT INTO fire ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
OF = f"SELECT {COLUMNS} FROM fire WHERE source = ? AND name = ? ORDER BY id DESC LIMIT ?"
ANSWERED = "SELECT 1 FROM fire WHERE source = 'rule' AND name = ? AND event = ?"
PRUNE = """
DELETE FROM fire WHERE source = ?1 AND name = ?2 AND id <= (
  SELECT id FROM fire WHERE source = ?1 AND name = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)
"""
KEPT = 1000


def add(tx: Transaction, fire: Fire) -> None:
    """The history of one schedule or rule goes back KEPT fires; the events go back further."""
    tx.run(ADD, *msgspec.structs.astuple(fire))
    tx.run(PRUNE, fire.source, fire.name, KEPT)


def of(store: Store, source: str, name: str, limit: int) -> tuple[Fire, ...]:
    """Newest first."""
    return tuple(map(_fire, store.rows(OF, source, name, limit)))


def is_answered(at: Store | Transaction, rule: str, event: int) -> bool:
    """Whether the rule has a fire for this event."""
    return at.row(ANSWERED, rule, event) is not None


def _fire(row: Row) -> Fire:
    source, name, at, outcome, due_at, event, workflow, reason, hint = row
    return Fire(
        source=source,
        name=name,
        at=at,
        outcome=Outcome(outcome),
        due_at=due_at,
        event=event,
        workflow=workflow,
        reason=reason,
        hint=hint,
    )
