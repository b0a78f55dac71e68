"""The event table: one global sequence, read by cursor."""

from __future__ import annotations

from exocomp.protocol.events import AnyEvent, Recorded
from exocomp.store import rows
from exocomp.store.store import Store

AFTER = """
SELECT seq, at, body FROM event
WHERE seq > ?1 AND (?2 IS NULL OR workflow = ?2) AND (?3 IS NULL OR workspace = ?3)
ORDER BY seq LIMIT ?4
"""
BEFORE_TIME = "SELECT seq FROM event WHERE at < ? ORDER BY seq DESC LIMIT 1"
ROTATED = "SELECT 1 FROM event WHERE type = 'fleet_key_rotated' AND json_extract(body, '$.fingerprint') = ? LIMIT 1"
NEWEST = "SELECT coalesce(max(seq), 0) FROM event"


def after(
    store: Store, seq: int, *, workflow: str | None = None, workspace: str | None = None, limit: int = 100
) -> tuple[Recorded, ...]:
    """Events numbered above `seq`, oldest first."""
    return tuple(map(rows.recorded, store.rows(AFTER, seq, workflow, workspace, limit)))


def newest(store: Store) -> int:
    row = store.row(NEWEST)
    return int(row[0]) if row else 0


def last_before(store: Store, at: float) -> int:
    """Number of the last event before the Unix time `at`."""
    row = store.row(BEFORE_TIME, at)
    return int(row[0]) if row else 0


def was_rotated(store: Store, fingerprint: str) -> bool:
    """Whether a rotation to this fleet key was recorded as ended."""
    return store.row(ROTATED, fingerprint) is not None


def note(store: Store, name: str, *events: AnyEvent) -> None:
    """Record events that move no state; `name` names the commit."""
    with store.transaction(name) as tx:
        for event in events:
            tx.event(event)
