"""A connection that outlives restarts of the daemon: subscriptions go on where they stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Generic, Self, TypeVar

import trio

from exocomp.client import START, Client, Subscription, connect
from exocomp.errors import ExocompError, NoDaemon
from exocomp.protocol.codec import LogChunk
from exocomp.protocol.commands import AnyCommand, AnyReply
from exocomp.protocol.events import Recorded
from exocomp.protocol.queries import AnyAnswer, AnyQuery

PATIENCE_S = 60.0
PAUSE_S = 0.25

T = TypeVar("T")


@asynccontextmanager
async def stay_connected(
    socket: Path, *, note: Callable[[str], None], patience_s: float = PATIENCE_S
) -> AsyncIterator[Link]:
    """A Link to the daemon at `socket`; the first connection has to succeed, else NoDaemon at once."""
    link = Link(socket, note, patience_s)
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link._keep)
        try:
            await link.client()
            yield link
        except (trio.Cancelled, GeneratorExit):
            raise
        except BaseException as error:
            failure = error  # raised below, outside the nursery, which would wrap it in a group
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


class Link:
    """The current connection; every method raises NoDaemon once the daemon stayed away for `patience_s` seconds."""

    def __init__(self, socket: Path, note: Callable[[str], None], patience_s: float) -> None:
        self._socket = socket
        self._note = note
        self._patience_s = patience_s
        self._client: Client | None = None
        self._changed = trio.Event()
        self.failure: ExocompError | None = None

    async def client(self) -> Client:
        while True:
            if self.failure is not None:
                raise self.failure
            if self._client is not None and not self._client.closed:
                return self._client
            await self._changed.wait()

    async def do(self, command: AnyCommand) -> AnyReply:
        """Said once: a connection lost before the reply is the caller's to judge."""
        return await (await self.client()).do(command)

    async def ask(self, query: AnyQuery) -> AnyAnswer:
        while True:
            client = await self.client()
            try:
                return await client.ask(query)
            except NoDaemon:
                await client.wait_closed()

    def follow(self, *, since: int, workflow: str | None = None) -> Resumed[Recorded]:
        """Events without end: a daemon that ends the stream is stopping."""
        return Resumed(
            self,
            since,
            lambda client, seq: client.follow(since=seq, workflow=workflow),
            lambda item: item.seq,
            endless=True,
        )

    def follow_log(
        self, job: str, *, attempt: int | None = None, stream: str = "log", live: bool = True
    ) -> Resumed[LogChunk]:
        return Resumed(
            self,
            0,
            lambda client, offset: client.follow_log(job, attempt=attempt, stream=stream, offset=offset, live=live),
            lambda item: item.offset,
        )

    async def _keep(self) -> None:
        deadline = -1.0  # the first connection has no second try
        while self.failure is None:
            try:
                async with connect(self._socket) as client:
                    self._turn(client)
                    if deadline > 0:
                        self._note("the daemon is back")
                    await client.wait_closed()
                self._note("the connection to the daemon is lost; waiting for it to come back")
                deadline = trio.current_time() + self._patience_s
            except ExocompError as error:
                if trio.current_time() < deadline:
                    await trio.sleep(PAUSE_S)
                    continue
                self.failure = error if deadline < 0 else self._gone_for_good()
        self._turn(None)

    def _turn(self, client: Client | None) -> None:
        self._client = client
        self._changed.set()
        self._changed = trio.Event()

    def _gone_for_good(self) -> ExocompError:
        what = f"the daemon at {self._socket} did not come back within {self._patience_s:.0f} s"
        return NoDaemon(what, hint=START)


class Resumed(Generic[T]):
    """A subscription that is opened again, after its last item, on each new connection."""

    def __init__(
        self,
        link: Link,
        position: int,
        open: Callable[[Client, int], Subscription[T]],
        place: Callable[[T], int],
        *,
        endless: bool = False,
    ) -> None:
        self._link = link
        self._position = position
        self._open = open
        self._place = place
        self._endless = endless
        self._client: Client
        self._current: Subscription[T] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while True:
            if self._current is None:
                self._client = await self._link.client()
                self._current = self._open(self._client, self._position)
            try:
                item = await anext(self._current)
            except NoDaemon:
                self._current = None
                await self._client.wait_closed()
                continue
            except StopAsyncIteration:
                if not self._endless:
                    raise
                self._current = None
                await trio.sleep(PAUSE_S)
                continue
            self._position = self._place(item)
            return item
