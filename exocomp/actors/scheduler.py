"""The scheduler: sleeps until the next time of any schedule, and has the sequencer answer for it."""

from __future__ import annotations

import heapq
import logging
from functools import lru_cache
from typing import Any

import msgspec
import trio

from exocomp import schedule as cron
from exocomp.actors.base import Mailbox
from exocomp.actors.firing import order_of
from exocomp.actors.intake import Intake
from exocomp.errors import NotFound
from exocomp.model import CatchUp, Schedule
from exocomp.protocol.mail import FireSchedule, ReplanSchedule, SchedulesChanged
from exocomp.store import schedules
from exocomp.store.store import Store

log = logging.getLogger(__name__)

LATE_S = 60.0  # a time answered for later than this was missed
LOOK_S = 15.0  # how soon a clock that was set is noticed
SET_BACK_S = 300.0  # a clock behind its own plans by more than this was wrong when it made them
AT_ONCE = 4  # fires that are looked into at the same time

parsed = lru_cache(maxsize=10_000)(cron.parse)


class Scheduler:
    """Keeps nothing that is not in the ledger: the times there are those that nobody answered for yet."""

    def __init__(self, store: Store, intake: Intake, *, mailbox: Mailbox[Any], boss: Mailbox[Any]) -> None:
        self._store = store
        self._intake = intake
        self._mailbox = mailbox
        self._boss = boss
        self._known: dict[str, Schedule] = {}
        self._heap: list[tuple[float, str]] = []
        self._under_way: set[str] = set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._limiter = trio.CapacityLimiter(AT_ONCE)
        self._look_up()
        task_status.started()
        async with trio.open_nursery() as nursery:
            while True:
                self._release(nursery)
                with trio.move_on_after(self._pause()):
                    # Always drained: whoever tells of a change must not have to wait for a fire.
                    async for _, _ in self._mailbox:
                        self._look_up()
                        break

    def _look_up(self) -> None:
        self._known = {each.name: each for each in schedules.every(self._store)}
        self._heap = [(each.next_at, each.name) for each in self._known.values() if each.next_at is not None]
        heapq.heapify(self._heap)

    def _pause(self) -> float:
        """Seconds to sleep; short enough to see that the clock was set."""
        if not self._heap:
            return LOOK_S
        return min(max(self._heap[0][0] - self._store.now(), 0.001), LOOK_S)

    def _release(self, nursery: trio.Nursery) -> None:
        now = self._store.now()
        for each in self._known.values():
            if each.next_at is not None and each.planned_at > now + SET_BACK_S:
                self._begin(nursery, each)
        while self._heap and self._heap[0][0] <= now:
            at, name = heapq.heappop(self._heap)
            each = self._known[name]
            if each.next_at == at:
                self._begin(nursery, each)

    def _begin(self, nursery: trio.Nursery, due: Schedule) -> None:
        if due.name not in self._under_way:
            self._under_way.add(due.name)
            nursery.start_soon(self._answer, due)

    async def _answer(self, due: Schedule) -> None:
        async with self._limiter:
            mail = judge(due, self._store.now())
            if isinstance(mail, FireSchedule) and not mail.missed:
                refused = await self._intake.refusal(order_of(due.work))
                mail = msgspec.structs.replace(mail, refused=refused)
            await self._boss.ask(mail)
        self._under_way.discard(due.name)
        try:
            planned = schedules.get(self._store, due.name)
        except NotFound:
            return
        self._known[due.name] = planned
        if planned.next_at is not None:
            heapq.heappush(self._heap, (planned.next_at, planned.name))
            if self._heap[0][1] == planned.name:
                self._mailbox.nudge(SchedulesChanged())


def judge(due: Schedule, now: float) -> FireSchedule | ReplanSchedule:
    """What is to be done about a schedule whose time has come: it fires for the latest time that passed, once.

    Times that passed more than LATE_S ago were missed: they are not caught up unless the schedule says so. When the
    clock was set back far behind the plan, the plan is made anew and nothing fires.
    """
    assert due.next_at is not None
    when = parsed(due.cron, due.zone)
    if due.planned_at > now + SET_BACK_S:
        return ReplanSchedule(name=due.name, planned_for=due.next_at, next_at=cron.next_fire(when, now))
    latest, passed, following = due.next_at, 1, cron.next_fire(when, due.next_at)
    if following is not None and following <= now:
        missed, more = cron.latest_missed(when, due.next_at, now)
        latest, passed = missed or latest, more + 1
        following = cron.next_fire(when, now)
    mail = FireSchedule(name=due.name, planned_for=due.next_at, due_at=latest, next_at=following)
    if now - latest <= LATE_S or due.catch_up is CatchUp.ONCE:
        return mail
    times = f"{passed} times" if passed > 1 else "its time"
    return msgspec.structs.replace(mail, missed=f"{times} passed while no daemon was there to answer")
