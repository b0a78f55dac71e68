"""The actor shape of jobs that live in memory: one task a job, stopped by its id, reported once."""

from __future__ import annotations

from typing import Any

import trio

from exocomp.actors.base import Actor, Mailbox
from exocomp.errors import ExocompError
from exocomp.protocol.mail import Report, RunJob, StopJob


class JobTasks(Actor[Any]):
    """Always drains: an order starts a task, its report goes to `boss`; a daemon that stops reports nothing."""

    def __init__(self, *, boss: Mailbox[Any], mailbox: Mailbox[Any] | None = None) -> None:
        super().__init__(mailbox=mailbox)
        self.boss = boss
        self._running: dict[str, trio.CancelScope] = {}

    async def work(self, order: RunJob) -> Report:
        """Do the job; the failure of the world is a Report."""
        raise NotImplementedError

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            task_status.started()
            async for message, reply in self.mailbox:
                match message:
                    case RunJob(job=job) if job.id not in self._running:
                        self._running[job.id] = trio.CancelScope()
                        nursery.start_soon(self._run_job, message)
                    case StopJob(job=id) if id in self._running:
                        self._running[id].cancel()
                    case _ if reply is not None:
                        nursery.start_soon(self._answer, message, reply)

    async def _run_job(self, order: RunJob) -> None:
        job = order.job.id
        report = Report(job=job, attempt=order.attempt, outcome="cancelled", reason="cancelled by the operator")
        with self._running[job]:
            report = await self.work(order)
        del self._running[job]
        await self.boss.tell(report)

    async def _answer(self, message: Any, reply: trio.MemorySendChannel[Any]) -> None:
        with reply:
            try:
                reply.send_nowait(await self.handle(message))
            except ExocompError as refusal:
                reply.send_nowait(refusal)
