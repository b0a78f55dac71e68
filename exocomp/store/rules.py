"""Rules, and up to which event they have looked."""

from __future__ import annotations

import msgspec

from exocomp.errors import Conflict, NotFound
from exocomp.model import Rule, Work
from exocomp.protocol.fired import RuleAdded, RuleDisabled, RuleEnabled, RuleRemoved
from exocomp.store import events
from exocomp.store.rows import Row
from exocomp.store.store import Store, Transaction

COLUMNS = "name, on_event, matches, work, enabled, created_at, since"
ALL = f"SELECT {COLUMNS} FROM rule ORDER BY name"
ONE = f"SELECT {COLUMNS} FROM rule WHERE name = ?"
TARGETING = "SELECT name FROM rule WHERE target IN (?, ?) ORDER BY name"
ADD = f"INSERT INTO rule ({COLUMNS}, target) VALUES (?, ?, ?, ?, 1, ?, ?, ?)"
REMOVE = "DELETE FROM rule WHERE name = ?"
FORGET_FIRES = "DELETE FROM fire WHERE source = 'rule' AND name = ?"
ENABLE = "UPDATE rule SET enabled = 1, since = ? WHERE name = ? AND enabled = 0"
DISABLE = "UPDATE rule SET enabled = 0 WHERE name = ? AND enabled = 1"
LOOKED = "SELECT seq FROM looked"
LOOK = "UPDATE looked SET seq = ?"
CAUSE = """
SELECT origin, (SELECT event.workflow FROM fire JOIN event ON event.seq = fire.event WHERE fire.workflow = ?1)
FROM workflow WHERE id = ?1
"""

_work = msgspec.json.Decoder(Work)


def add(store: Store, rule: Rule) -> None:
    """It answers what happens from now on; raises Conflict when the name is taken."""
    with store.transaction("add_rule") as tx:
        if tx.row(ONE, rule.name):
            raise Conflict(
                f"rule {rule.name!r} exists already",
                hint=f"exocomp playbook rule remove {rule.name} first, or choose another name",
            )
        matches, work = (msgspec.json.encode(part).decode() for part in (rule.match, rule.work))
        tx.run(ADD, rule.name, rule.on, matches, work, tx.now, events.newest(store), rule.work.target)
        tx.event(RuleAdded(rule=rule.name, on=rule.on, target=rule.work.target))


def remove(store: Store, name: str) -> None:
    """Forget it with its history; what it started goes on. Raises NotFound."""
    with store.transaction("remove_rule") as tx:
        if not tx.run(REMOVE, name):
            raise unknown(name)
        tx.run(FORGET_FIRES, name)
        tx.event(RuleRemoved(rule=name))


def enable(store: Store, name: str) -> None:
    """Raises NotFound or Conflict."""
    with store.transaction("enable_rule") as tx:
        if not tx.run(ENABLE, events.newest(store), name):
            _refuse(tx, name, "enabled")
        tx.event(RuleEnabled(rule=name))


def disable(store: Store, name: str) -> None:
    """Raises NotFound or Conflict."""
    with store.transaction("disable_rule") as tx:
        if not tx.run(DISABLE, name):
            _refuse(tx, name, "disabled")
        tx.event(RuleDisabled(rule=name))


def every(store: Store) -> tuple[Rule, ...]:
    return tuple(map(_rule, store.rows(ALL)))


def get(at: Store | Transaction, name: str) -> Rule:
    """Raises NotFound."""
    row = at.row(ONE, name)
    if row is None:
        raise unknown(name)
    return _rule(row)


def targeting(at: Store | Transaction, target: str, other: str = "") -> tuple[str, ...]:
    """Names of the rules whose target is one of the two."""
    return tuple(name for (name,) in at.rows(TARGETING, target, other))


def looked(store: Store) -> int:
    """Number of the last event that every rule has answered or let pass."""
    row = store.row(LOOKED)
    return int(row[0]) if row else 0


def look(store: Store, seq: int) -> None:
    with store.transaction("look") as tx:
        tx.run(LOOK, seq)


def behind(at: Store | Transaction, workflow: str | None) -> tuple[str, ...]:
    """Names of the rules that led to a workflow, the nearest first."""
    names: list[str] = []
    while workflow is not None and (row := at.row(CAUSE, workflow)) is not None:
        origin, workflow = row
        if origin.startswith("rule:"):
            names.append(origin.removeprefix("rule:"))
    return tuple(names)


def unknown(name: str) -> NotFound:
    return NotFound(f"no rule {name!r}", hint="see `exocomp playbook rule list`")


def _refuse(tx: Transaction, name: str, state: str) -> None:
    if not tx.row(ONE, name):
        raise unknown(name)
    raise Conflict(f"rule {name!r} is {state} already", hint=f"see `exocomp playbook rule show {name}`")


def _rule(row: Row) -> Rule:
    name, on, matches, work, enabled, created_at, since = row
    return Rule(
        name=name,
        on=on,
        match=msgspec.json.decode(matches, type=dict[str, str]),
        work=_work.decode(work),
        enabled=bool(enabled),
        created_at=created_at,
        since=since,
    )
