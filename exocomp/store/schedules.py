"""Schedules: the times that no fire answers for yet."""

from __future__ import annotations

import msgspec

from exocomp.errors import Conflict, NotFound
from exocomp.model import CatchUp, Schedule, Work
from exocomp.protocol.fired import ScheduleAdded, SchedulePaused, ScheduleRemoved, ScheduleResumed
from exocomp.store.rows import Row
from exocomp.store.store import Store, Transaction

COLUMNS = "name, cron, zone, catch_up, work, paused, created_at, next_at, planned_at"
ALL = f"SELECT {COLUMNS} FROM schedule ORDER BY name"
ONE = f"SELECT {COLUMNS} FROM schedule WHERE name = ?"
TARGETING = "SELECT name FROM schedule WHERE target IN (?, ?) ORDER BY name"
ADD = f"INSERT INTO schedule ({COLUMNS}, target) VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?, ?)"
REMOVE = "DELETE FROM schedule WHERE name = ?"
FORGET_FIRES = "DELETE FROM fire WHERE source = 'schedule' AND name = ?"
PAUSE = "UPDATE schedule SET paused = 1, next_at = NULL WHERE name = ? AND paused = 0"
RESUME = "UPDATE schedule SET paused = 0, next_at = ?, planned_at = ? WHERE name = ? AND paused = 1"
PLAN = "UPDATE schedule SET next_at = ?, planned_at = ? WHERE name = ? AND paused = 0 AND next_at IS ?"

_work = msgspec.json.Decoder(Work)


def add(store: Store, schedule: Schedule, next_at: float) -> None:
    """Raises Conflict when the name is taken."""
    with store.transaction("add_schedule") as tx:
        if tx.row(ONE, schedule.name):
            raise Conflict(
                f"schedule {schedule.name!r} exists already",
                hint=f"exocomp schedule remove {schedule.name} first, or choose another name",
            )
        work = msgspec.json.encode(schedule.work).decode()
        what = (schedule.name, schedule.cron, schedule.zone, schedule.catch_up.value, work)
        tx.run(ADD, *what, tx.now, next_at, tx.now, schedule.work.target)
        tx.event(
            ScheduleAdded(schedule=schedule.name, cron=schedule.cron, zone=schedule.zone, target=schedule.work.target)
        )


def remove(store: Store, name: str) -> None:
    """Forget it with its history; what it started goes on. Raises NotFound."""
    with store.transaction("remove_schedule") as tx:
        if not tx.run(REMOVE, name):
            raise unknown(name)
        tx.run(FORGET_FIRES, name)
        tx.event(ScheduleRemoved(schedule=name))


def pause(store: Store, name: str) -> None:
    """Raises NotFound or Conflict."""
    with store.transaction("pause_schedule") as tx:
        if not tx.run(PAUSE, name):
            _refuse(tx, name, "paused")
        tx.event(SchedulePaused(schedule=name))


def resume(store: Store, name: str, next_at: float) -> None:
    """Raises NotFound or Conflict."""
    with store.transaction("resume_schedule") as tx:
        if not tx.run(RESUME, next_at, tx.now, name):
            _refuse(tx, name, "running")
        tx.event(ScheduleResumed(schedule=name))


def plan(tx: Transaction, name: str, due_at: float | None, next_at: float | None) -> bool:
    """Answer for `due_at` and plan the next time; False when another fire did, or it was paused meanwhile."""
    return tx.run(PLAN, next_at, tx.now, name, due_at) == 1


def every(store: Store) -> tuple[Schedule, ...]:
    return tuple(map(_schedule, store.rows(ALL)))


def get(at: Store | Transaction, name: str) -> Schedule:
    """Raises NotFound."""
    row = at.row(ONE, name)
    if row is None:
        raise unknown(name)
    return _schedule(row)


def targeting(at: Store | Transaction, target: str, other: str = "") -> tuple[str, ...]:
    """Names of the schedules whose target is one of the two."""
    return tuple(name for (name,) in at.rows(TARGETING, target, other))


def unknown(name: str) -> NotFound:
    return NotFound(f"no schedule {name!r}", hint="see `exocomp schedule list`")


def _refuse(tx: Transaction, name: str, state: str) -> None:
    if not tx.row(ONE, name):
        raise unknown(name)
    raise Conflict(f"schedule {name!r} is {state} already", hint=f"see `exocomp schedule show {name}`")


def _schedule(row: Row) -> Schedule:
    name, cron, zone, catch_up, work, paused, created_at, next_at, planned_at = row
    return Schedule(
        name=name,
        cron=cron,
        zone=zone,
        catch_up=CatchUp(catch_up),
        work=_work.decode(work),
        paused=bool(paused),
        created_at=created_at,
        next_at=next_at,
        planned_at=planned_at,
    )
