"""Mailbox and actor: one bounded mailbox, one loop, one message at a time."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Generic, NamedTuple, TypeVar

import trio

from exocomp.errors import ActorGone, ExocompError

M = TypeVar("M")


class Envelope(NamedTuple, Generic[M]):
    message: M
    reply: trio.MemorySendChannel[Any] | None = None


class Mailbox(Generic[M]):
    """Bounded: a full mailbox makes the sender wait, no message is ever dropped. It outlives a restarted actor."""

    def __init__(self, size: int = 64) -> None:
        self._send, self._receive = trio.open_memory_channel[Envelope[M]](size)

    async def tell(self, message: M) -> None:
        await self._send.send(Envelope(message))

    def nudge(self, message: M) -> None:
        """For a message that any other one can stand in for: a full mailbox does not take it."""
        with contextlib.suppress(trio.WouldBlock):
            self._send.send_nowait(Envelope(message))

    async def ask(self, message: M) -> Any:
        """The actor's answer; raises the ExocompError it refused with, ActorGone if it died before answering."""
        slot, answer = trio.open_memory_channel[Any](1)
        await self._send.send(Envelope(message, slot))
        try:
            value = await answer.receive()
        except trio.EndOfChannel:
            raise ActorGone(f"no answer to {type(message).__name__}") from None
        if isinstance(value, ExocompError):
            raise value
        return value

    def __aiter__(self) -> AsyncIterator[Envelope[M]]:
        return self._receive


class Actor(Generic[M]):
    """Subclass and write `handle`; a person's mistake is raised as ExocompError and becomes the answer."""

    def __init__(self, *, mailbox: Mailbox[M] | None = None) -> None:
        self.mailbox: Mailbox[M] = mailbox if mailbox is not None else Mailbox()

    async def recover(self) -> None:
        """Rebuild from the store whatever the actor keeps in memory."""

    async def handle(self, message: M) -> Any:
        raise NotImplementedError

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await self.recover()
        task_status.started()
        async for message, reply in self.mailbox:
            if reply is None:
                await self.handle(message)
                continue
            with reply:
                try:
                    reply.send_nowait(await self.handle(message))
                except ExocompError as refusal:
                    reply.send_nowait(refusal)
