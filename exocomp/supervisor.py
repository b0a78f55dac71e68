"""The supervisor: starts children in order, restarts or escalates, stops them in reverse."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec
import trio

from exocomp.errors import ActorGone, ExocompError

log = logging.getLogger(__name__)

BURST = 5
WINDOW_S = 60.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class Escalated(Exception):
    """A child died that must not, or died too often: the process ends and starts again from the ledger."""


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """`run` is a trio `start` target; `restarted` is awaited after each restart, before the child is used again."""

    name: str
    run: Callable[..., Awaitable[Any]]
    policy: Literal["restart", "escalate"]
    restarted: Callable[[], Awaitable[None]] | None = None


class Supervisor:
    """Children run until `stop` is called; an escalation raises Escalated out of `run`."""

    def __init__(self, children: Sequence[Child]) -> None:
        self._children = children
        self._stopping = trio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            scopes: list[tuple[trio.CancelScope, trio.Event]] = []
            for child in self._children:
                scopes.append(await nursery.start(self._keep, child))
            task_status.started()
            await self._stopping.wait()
            for scope, gone in reversed(scopes):
                scope.cancel()
                await gone.wait()

    async def _keep(
        self,
        child: Child,
        *,
        task_status: trio.TaskStatus[tuple[trio.CancelScope, trio.Event]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        gone = trio.Event()
        deaths: deque[float] = deque(maxlen=BURST)
        known = False
        try:
            with trio.CancelScope() as scope:
                while True:
                    try:
                        async with trio.open_nursery() as nursery:
                            await nursery.start(child.run)
                            if not known:
                                task_status.started((scope, gone))
                                known = True
                            elif child.restarted is not None:
                                await child.restarted()
                        raise Escalated(f"{child.name} ended although nobody stopped it")
                    except Exception as error:
                        await self._consider(child, deaths, single(error), is_up=known)
        finally:
            gone.set()

    async def _consider(self, child: Child, deaths: deque[float], error: Exception, *, is_up: bool) -> None:
        """Sleep before the next try, or raise Escalated: at once for a child that refuses to start at all."""
        now = trio.current_time()
        deaths.append(now)
        too_often = len(deaths) == BURST and now - deaths[0] < WINDOW_S
        refuses = isinstance(error, ExocompError) and not is_up
        is_last = child.policy == "escalate" or too_often or refuses
        if not isinstance(error, ExocompError | ActorGone):
            log.error("%s died", child.name, exc_info=error)
        elif not is_last:
            log.error("%s died: %s", child.name, error)
        if is_last:
            raise Escalated(f"{child.name} died: {error!r}") from error
        await trio.sleep(min(FIRST_PAUSE_S * 2 ** (len(deaths) - 1), LONGEST_PAUSE_S))


def single(error: Exception) -> Exception:
    """What a nursery wrapped, if it is a single failure."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
