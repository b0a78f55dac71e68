"""The reactor: reads every event once, and has the sequencer answer those that a rule fits."""

from __future__ import annotations

import logging
from typing import Any

import trio

from exocomp import triggers
from exocomp.actors.base import Mailbox
from exocomp.actors.firing import order_of
from exocomp.actors.intake import Intake
from exocomp.actors.tail import Tail
from exocomp.errors import ExocompError
from exocomp.model import Rule
from exocomp.protocol.events import Recorded
from exocomp.protocol.mail import FireRule, Refusal
from exocomp.store import fires, rules
from exocomp.store.store import Store

REMEMBER = 500  # events between two notes of how far it has looked

log = logging.getLogger(__name__)


class Reactor:
    """After a restart it looks again at what came since its last note; what was answered is not answered twice."""

    def __init__(self, store: Store, tail: Tail, intake: Intake, *, boss: Mailbox[Any]) -> None:
        self._store = store
        self._tail = tail
        self._intake = intake
        self._boss = boss
        self._noted = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._noted = rules.looked(self._store)
        task_status.started()
        await self._tail.follow(self._noted, None, None, self._look)

    async def _look(self, page: tuple[Recorded, ...]) -> None:
        answered = False
        for recorded in page:
            for rule in rules.every(self._store):
                if rule.enabled and recorded.seq > rule.since and triggers.fits(rule, recorded.event):
                    await self._answer(rule, recorded)
                    answered = True
        if answered or page[-1].seq >= self._noted + REMEMBER:
            self._noted = page[-1].seq
            rules.look(self._store, self._noted)

    async def _answer(self, rule: Rule, recorded: Recorded) -> None:
        if fires.is_answered(self._store, rule.name, recorded.seq):
            return
        work, refused = rule.work, None
        try:
            work = triggers.work(rule, recorded.event)
        except ExocompError as error:
            refused = Refusal(what=error.what, hint=error.hint)
        except Exception as fault:  # of this rule: the event would be looked at again at each start, and no other be
            log.error("rule %s failed at event %s", rule.name, recorded.seq, exc_info=fault)
            refused = Refusal(what=f"the daemon failed at this: {fault!r}", hint="see its log, and report it")
        refused = refused or await self._intake.refusal(order_of(work))
        cause = recorded.event.workflow
        await self._boss.ask(FireRule(name=rule.name, event=recorded.seq, cause=cause, work=work, refused=refused))
