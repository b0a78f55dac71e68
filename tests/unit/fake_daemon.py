"""A daemon of a few lines over a real Unix socket; its twin is the real daemon of the end-to-end tests."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from exocomp.protocol import codec

Say = Callable[[codec.FromDaemon], Awaitable[None]]
Answerer = Callable[[Any, Say], Awaitable[None]]


class FakeDaemon:
    """`answer(frame, say)` is called in a task of its own for each frame after the greeting."""

    def __init__(self, answer: Answerer, hello: codec.FromDaemon | str | None = None) -> None:
        self.answer = answer
        self.hello = hello if hello is not None else codec.Hello(version="test", since=7)
        self.frames: list[Any] = []
        self.connections: list[trio.CancelScope] = []
        self.gone = 0

    def drop(self) -> None:
        """Lose every connection, as a killed daemon does."""
        for scope in self.connections:
            scope.cancel()
        self.connections.clear()

    async def serve(self, stream: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self.connections.append(scope)
            try:
                async with stream, trio.open_nursery() as nursery:
                    websocket = await (await wrap_server_stream(nursery, stream)).accept()
                    await self._talk(websocket, nursery)
                    nursery.cancel_scope.cancel()
            except* (ConnectionClosed, trio.BrokenResourceError):
                self.gone += 1

    async def _talk(self, websocket: WebSocketConnection, nursery: trio.Nursery) -> None:
        async def say(frame: codec.FromDaemon) -> None:
            await websocket.send_message(codec.encode(frame))

        await websocket.get_message()
        await websocket.send_message(self.hello if isinstance(self.hello, str) else codec.encode(self.hello))
        while True:
            frame = codec.decode_from_client(await websocket.get_message())
            self.frames.append(frame)
            nursery.start_soon(self.answer, frame, say)


@asynccontextmanager
async def listening(daemon: FakeDaemon, path: Path) -> AsyncIterator[None]:
    path.unlink(missing_ok=True)
    socket = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    await socket.bind(str(path))
    socket.listen(16)
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, daemon.serve, [trio.SocketListener(socket)])
        yield
        nursery.cancel_scope.cancel()
    path.unlink(missing_ok=True)


@contextmanager
def in_thread(daemon: FakeDaemon, path: Path) -> Iterator[None]:
    """The daemon in a thread of its own, for callers that run trio themselves."""
    started = threading.Event()
    stop: list[Callable[[], None]] = []

    async def run() -> None:
        async with listening(daemon, path):
            with trio.CancelScope() as scope:
                token = trio.lowlevel.current_trio_token()
                stop.append(lambda: token.run_sync_soon(scope.cancel))
                started.set()
                await trio.sleep_forever()

    thread = threading.Thread(target=trio.run, args=(run,), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield
    finally:
        stop[0]()
        thread.join(10)
