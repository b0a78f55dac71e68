"""The clock of the questions: tells the sequencer when the time of one is up."""

from __future__ import annotations

from typing import Any

import trio

from exocomp.actors.base import Mailbox
from exocomp.protocol.mail import ExpireApprovals
from exocomp.store import approvals
from exocomp.store.store import Store

LOOK_S = 60.0  # how late it may be: a question asked meanwhile, or a clock that was set, is seen by then


class Expiry:
    def __init__(self, store: Store, *, boss: Mailbox[Any]) -> None:
        self._store = store
        self._boss = boss

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            at = approvals.next_expiry(self._store)
            if at is not None and at <= self._store.now():
                await self._boss.ask(ExpireApprovals())
                continue
            await trio.sleep(LOOK_S if at is None else min(LOOK_S, at - self._store.now()))
