"""Fake SSH servers, good and bad, on loopback ports of an asyncio loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import asyncssh

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class FakeServers:
    """`connections` counts what reached each port of `raw`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.keys = {name: asyncssh.generate_private_key(name) for name in ("ssh-ed25519", "ecdsa-sha2-nistp256")}
        self.keys["ssh-rsa"] = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
        self.connections: dict[int, int] = {}
        self._servers: list[Any] = []
        self._talks: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def public(self, *types: str) -> set[tuple[str, str]]:
        lines = [self.keys[name].export_public_key("openssh").decode().split() for name in types or self.keys]
        return {(line[0], line[1]) for line in lines}

    def sshd(self, *types: str) -> int:
        keys = [self.keys[name] for name in types or self.keys]

        async def start() -> int:
            server = await asyncssh.create_server(asyncssh.SSHServer, "127.0.0.1", 0, server_host_keys=keys)
            self._servers.append(server)
            return server.get_port()

        return self._call(start())

    def raw(self, talk: Talk) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._talks.add(task)
            port = writer.get_extra_info("sockname")[1]
            self.connections[port] = self.connections.get(port, 0) + 1
            try:
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await talk(reader, writer)
            finally:
                writer.close()
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await writer.wait_closed()
                self._talks.discard(task)

        async def start() -> int:
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            self._servers.append(server)
            return int(server.sockets[0].getsockname()[1])

        return self._call(start())

    def says(self, line: bytes, *, then_waits: bool = False) -> int:
        async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(line)
            await writer.drain()
            await asyncio.sleep(60 if then_waits else 0)

        return self.raw(talk)

    def dribbles(self, line: bytes, every_s: float) -> int:
        async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for byte in line:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(every_s)

        return self.raw(talk)

    def relays(
        self, port: int, *, first: bytes = b"", drops: Callable[[int], bool] = lambda _: False, forge: Any = None
    ) -> int:
        """In front of `port`: says `first`, drops the connections whose number `drops`, rewrites by `forge`."""
        count = 0

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal count
            count += 1
            if drops(count):
                return
            writer.write(first)
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)

            async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, change: Any) -> None:
                while chunk := await source.read(65536):
                    sink.write(change(chunk) if change else chunk)
                    await sink.drain()

            pair = [
                asyncio.ensure_future(copy(far_reader, writer, forge)),
                asyncio.ensure_future(copy(reader, far_writer, None)),
            ]
            try:
                await asyncio.wait(pair, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in pair:
                    one.cancel()
                await asyncio.gather(*pair, return_exceptions=True)
                far_writer.close()
                with contextlib.suppress(OSError):
                    await far_writer.wait_closed()

        return self.raw(talk)

    def stop(self) -> None:
        self._call(self._stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in tuple(self._talks):
            task.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        for server in self._servers:
            await server.wait_closed()
        await asyncio.sleep(0.05)

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


@contextlib.contextmanager
def fake_servers() -> Iterator[FakeServers]:
    servers = FakeServers()
    try:
        yield servers
    finally:
        servers.stop()
