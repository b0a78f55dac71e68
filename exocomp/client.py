"""The websocket client: one connection to the daemon, many requests and subscriptions on it.

import trio
from exocomp.client import connect
from exocomp.protocol.queries import ListWorkspaces

async def main() -> None:
    async with connect("/run/exocomp/exocomp.sock") as client:
        print(await client.ask(ListWorkspaces()))
        async for recorded in client.follow(since=client.since):
            print(recorded.seq, recorded.event)

trio.run(main)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import msgspec
import trio
from trio_websocket import ConnectionClosed, HandshakeError, WebSocketConnection, wrap_client_stream

from exocomp.errors import ExocompError, NoDaemon, WrongUsage
from exocomp.protocol import codec
from exocomp.protocol.commands import AnyCommand, AnyReply
from exocomp.protocol.events import Recorded
from exocomp.protocol.queries import AnyAnswer, AnyQuery

HANDSHAKE_S = 5.0
CLOSING_S = 0.5
FRAMES_AHEAD = 16  # frames a subscription may lie ahead of its consumer before the connection waits for it
MAX_FRAME = 64 * 1024 * 1024
START = "start one: `exocomp serve`"

T = TypeVar("T")


@asynccontextmanager
async def connect(socket: str | Path) -> AsyncIterator[Client]:
    """A connection to the daemon at `socket`, open inside the `async with`.

    Raises NoDaemon when nothing answers there or it speaks another protocol, NotAllowed when it refuses the caller.
    """
    path = Path(socket)
    failure: BaseException | None = None
    try:
        async with await _open(path) as stream, trio.open_nursery() as nursery:
            try:
                client = await _greet(nursery, stream, path)
                nursery.start_soon(client._read)
                yield client
            except (trio.Cancelled, GeneratorExit):
                raise
            except BaseException as error:
                failure = error  # raised below, outside the nursery, which would wrap it in a group
            else:
                with trio.move_on_after(CLOSING_S):
                    await client._ws.aclose()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if group.split(HandshakeError)[1] is not None:
            raise
        failure = NoDaemon(f"what listens at {path} is not an exocomp daemon", hint="see `exocomp config show`")
    if failure is not None:
        raise failure


async def _open(path: Path) -> trio.SocketStream:
    try:
        return await trio.open_unix_socket(path)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        raise NoDaemon(f"no daemon answers at {path}", hint=START) from None
    except PermissionError:
        hint = "run this as the user that the daemon runs as, or name another one with --socket"
        raise NoDaemon(f"not allowed to open {path}", hint=hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NoDaemon(f"cannot connect to {path}: {reason}", hint="name another socket with --socket") from None


async def _greet(nursery: trio.Nursery, stream: trio.SocketStream, path: Path) -> Client:
    hello: codec.FromDaemon | None = None
    ws: Any = None
    with trio.move_on_after(HANDSHAKE_S):
        ws = await wrap_client_stream(
            nursery, stream, "localhost", "/v1", max_message_size=MAX_FRAME, receive_buffer_size=64 * 1024
        )
        try:
            await ws.send_message(codec.encode(codec.Hello(version=version("exocomp"))))
            hello = codec.decode_from_daemon(await ws.get_message())
        except ConnectionClosed:
            raise NoDaemon(f"the daemon at {path} closed the connection at once", hint="see its log") from None
        except msgspec.DecodeError:
            hello = codec.Ended(id=0)
    if isinstance(hello, codec.Refused):
        raise codec.error_of(hello)
    if hello is None:
        raise NoDaemon(f"something listens at {path} but says nothing", hint="restart the daemon")
    if not isinstance(hello, codec.Hello):
        raise NoDaemon(f"what listens at {path} does not greet as an exocomp daemon does", hint=START)
    if hello.protocol != codec.VERSION:
        what = f"the daemon at {path} speaks protocol {hello.protocol}, this client {codec.VERSION}"
        raise NoDaemon(what, hint="use one release of exocomp for both; restart the daemon after an upgrade")
    return Client(path, ws, nursery, hello)


class Client:
    """Made by `connect`. `since` is the number of the newest event at the time of connecting."""

    def __init__(self, path: Path, ws: WebSocketConnection, nursery: trio.Nursery, hello: codec.Hello) -> None:
        self.since = hello.since
        self.version = hello.version
        self._path = path
        self._ws = ws
        self._nursery = nursery
        self._last_id = 0
        self._slots: dict[int, trio.MemorySendChannel[Any]] = {}
        self._streams: dict[int, trio.MemorySendChannel[Any]] = {}
        self._room = trio.Event()
        self._closed = trio.Event()
        self._refusal: ExocompError | None = None

    async def do(self, command: AnyCommand) -> AnyReply:
        """The daemon's reply; raises the ExocompError that it refused with, NoDaemon when the connection is lost."""
        reply: AnyReply = (await self._request(lambda id: codec.Do(id=id, command=command))).reply
        return reply

    async def ask(self, query: AnyQuery) -> AnyAnswer:
        """The daemon's answer; raises as `do` does."""
        answer: AnyAnswer = (await self._request(lambda id: codec.Ask(id=id, query=query))).answer
        return answer

    def follow(
        self, *, since: int = 0, workflow: str | None = None, workspace: str | None = None
    ) -> Subscription[Recorded]:
        """Every event after number `since`, then live, without end and without a gap."""
        return Subscription(self, lambda id: codec.Follow(id=id, since=since, workflow=workflow, workspace=workspace))

    def follow_log(
        self, job: str, *, attempt: int | None = None, stream: str = "log", offset: int = 0, live: bool = True
    ) -> Subscription[codec.LogChunk]:
        """One attempt's output in chunks, to its end; `stream` "progress" is JSON lines (jobs.Progress)."""
        return Subscription(
            self,
            lambda id: codec.FollowLog(id=id, job=job, attempt=attempt, stream=stream, offset=offset, live=live),
        )

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    async def wait_closed(self) -> None:
        """Returns when the connection is lost."""
        await self._closed.wait()

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _gone(self) -> ExocompError:
        what = f"the connection to the daemon at {self._path} was lost"
        return self._refusal or NoDaemon(what, hint="see whether it runs; what it had accepted goes on")

    async def _request(self, frame: Callable[[int], codec.FromClient]) -> Any:
        id = self._new_id()
        slot, answer = trio.open_memory_channel[Any](1)
        self._slots[id] = slot
        self._room.set()
        try:
            await self._say(frame(id))
            reply = await answer.receive()
        except trio.EndOfChannel:
            raise self._gone() from None
        finally:
            self._slots.pop(id, None)
        if isinstance(reply, codec.Refused):
            raise codec.error_of(reply)
        return reply

    async def _say(self, frame: codec.FromClient) -> None:
        if self._closed.is_set():
            raise self._gone()
        text = codec.encode(frame)
        if len(text) > codec.LARGEST // 4:  # a character is up to 4 bytes
            what = f"the request is too large: {len(text) / (1 << 20):.1f} million characters"
            raise WrongUsage(what, hint="put what is large (extra-vars?) into files of the playbook's project")
        try:
            await self._ws.send_message(text)
        except ConnectionClosed:
            raise self._gone() from None

    async def _read(self) -> None:
        try:
            with suppress(ConnectionClosed):
                while True:
                    await self._dispatch(codec.decode_from_daemon(await self._ws.get_message()))
        except msgspec.DecodeError as error:
            what = f"the daemon at {self._path} said what this client does not understand: {error}"
            self._refusal = NoDaemon(what, hint="use one release of exocomp for both")
        finally:
            self._closed.set()
            for channel in (*self._slots.values(), *self._streams.values()):
                channel.close()

    async def _dispatch(self, frame: codec.FromDaemon) -> None:
        if isinstance(frame, codec.Hello):
            return
        if frame.id in self._slots:
            self._slots[frame.id].send_nowait(frame)
        elif frame.id in self._streams:
            await self._deliver(frame)
        elif isinstance(frame, codec.Refused) and frame.id == 0:
            self._refusal = codec.error_of(frame)
        elif isinstance(frame, codec.EventsHappened | codec.LogChunk):
            self._nursery.start_soon(self._unfollow, frame.id)

    async def _deliver(self, frame: Any) -> None:
        # A full subscription makes the connection wait, but never for a reply that its consumer may be waiting for.
        while (stream := self._streams.get(frame.id)) is not None:
            if stream.statistics().current_buffer_used < FRAMES_AHEAD or self._slots:
                stream.send_nowait(frame)
                return
            del stream
            self._room = trio.Event()
            await self._room.wait()

    async def _unfollow(self, id: int) -> None:
        if not self._closed.is_set():
            with suppress(ConnectionClosed):
                await self._ws.send_message(codec.encode(codec.Unfollow(id=id)))


class Subscription(Generic[T]):
    """An async iterator; leaving its loop ends the subscription. Every open one has to be read."""

    def __init__(self, client: Client, frame: Callable[[int], codec.FromClient]) -> None:
        self._client = client
        self._frame = frame
        self._id = 0
        self._done = False
        self._ready: deque[Any] = deque()
        self._receive: trio.MemoryReceiveChannel[Any] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._ready:
            if self._done:
                raise StopAsyncIteration
            frame = await self._next_frame()
            if isinstance(frame, codec.EventsHappened):
                self._ready.extend(frame.events)
            elif isinstance(frame, codec.LogChunk):
                self._ready.append(frame)
            else:
                self.close()
                if isinstance(frame, codec.Refused):
                    raise codec.error_of(frame)
                raise StopAsyncIteration
        item: T = self._ready.popleft()
        return item

    def close(self) -> None:
        """End the subscription; the daemon is told when it next sends something for it."""
        self._done = True
        self._client._streams.pop(self._id, None)
        self._client._room.set()

    def __del__(self) -> None:
        self.close()

    async def _next_frame(self) -> Any:
        if self._receive is None:
            self._id = self._client._new_id()
            send, self._receive = trio.open_memory_channel[Any](math.inf)
            self._client._streams[self._id] = send
            await self._client._say(self._frame(self._id))
        try:
            frame = await self._receive.receive()
        except trio.EndOfChannel:
            raise self._client._gone() from None
        self._client._room.set()
        return frame
