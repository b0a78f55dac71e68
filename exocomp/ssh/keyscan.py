"""Scan the host keys of many hosts: every type that is offered, each proven by the host's signature."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec

from exocomp.ssh.banner import printable
from exocomp.ssh.kexinit import Overheard
from exocomp.ssh.keys import ALGORITHMS, HostKey

# Cheapest first (a scan keeps no secret that a later quantum computer could read), then whatever asyncssh can do.
KEX = "^curve25519-sha256*,ecdh-sha2-nistp*,diffie-hellman-*"
CONNECTION_S = 5.0
PAUSES_S = (0.0, 0.3, 1.0)  # before each round; later rounds ask only for what is missing


class Target(NamedTuple):
    address: str
    port: int


class ScanResult(msgspec.Struct, frozen=True, kw_only=True):
    """`unscanned` are key types that the host offers but whose scan failed; without any key `error` says why."""

    keys: frozenset[HostKey] = frozenset()
    unscanned: tuple[str, ...] = ()
    error: str = ""


def scan_many(targets: Iterable[Target], *, limit: int = 50, deadline_s: float = 15.0) -> dict[Target, ScanResult]:
    """Scan `limit` hosts at once, each for `deadline_s` seconds of wall clock at most, and never raise for a host.

    Blocks, and runs an asyncio loop: call it in a worker thread. A host costs one connection for each key type
    that it offers, which its KEXINIT tells in the first one; that connection is given up before any login.
    """
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", "DSA is deprecated")  # by cryptography 51, to whoever imports asyncssh
    names = ThreadPoolExecutor(max_workers=limit, thread_name_prefix="resolve")
    try:
        return asyncio.run(_scan_all(tuple(dict.fromkeys(targets)), limit, deadline_s, names))
    finally:
        names.shutdown(wait=False, cancel_futures=True)  # a dead resolver holds its thread, not the scan


async def _scan_all(
    targets: tuple[Target, ...], limit: int, deadline_s: float, names: ThreadPoolExecutor
) -> dict[Target, ScanResult]:
    slots = asyncio.Semaphore(limit)

    async def one(target: Target) -> ScanResult:
        async with slots:
            return await _Scan(target, names).result(deadline_s)

    return dict(zip(targets, await asyncio.gather(*map(one, targets)), strict=True))


class _Scan:
    """What is known of one host so far; it survives the deadline."""

    def __init__(self, target: Target, names: ThreadPoolExecutor) -> None:
        self.target = target
        self.names = names
        self.keys: dict[str, HostKey] = {}
        self.offered: tuple[str, ...] | None = None
        self.error = ""

    async def result(self, deadline_s: float) -> ScanResult:
        try:
            async with asyncio.timeout(deadline_s):
                await self._rounds()
        except TimeoutError:
            self.error = self.error or f"the scan did not end within {deadline_s:g}s"
        keys = frozenset(self.keys.values())
        return ScanResult(keys=keys, unscanned=self._missing(), error="" if keys else self.error)

    async def _rounds(self) -> None:
        for pause in PAUSES_S:
            await asyncio.sleep(pause)
            if self.offered is None:
                await self._ask(tuple(name for names in ALGORITHMS.values() for name in names))
            for key_type in self._missing():
                await self._ask(ALGORITHMS[key_type])
            if self.offered is not None and not self._missing():
                return

    def _missing(self) -> tuple[str, ...]:
        return tuple(key_type for key_type in self.offered or () if key_type not in self.keys)

    async def _ask(self, algorithms: tuple[str, ...]) -> None:
        overheard, far = Overheard(), None
        try:
            async with asyncio.timeout(CONNECTION_S):
                far = await _dial(self.target, self.names)
                key = await _exchange(self.target, far, algorithms, overheard)
            self.keys[key.key_type] = key
        except _Failed as failed:
            self.error = str(failed)
        except TimeoutError:
            waited_for = "connection" if far is None else "SSH banner" if overheard.banner is None else "key exchange"
            self.error = f"no {waited_for} within {CONNECTION_S:g}s"
        if overheard.key_types is not None:
            self.offered = overheard.key_types
            if not self.offered:
                self.error = f"offers no host key of a type that can be pinned ({_quote(overheard.algorithms)})"


class _Failed(Exception):
    """One connection gave no key."""


async def _exchange(target: Target, far: socket.socket, algorithms: tuple[str, ...], overheard: Overheard) -> HostKey:
    """The key with which the host signed one key exchange; closes `far`; raises _Failed."""
    import asyncssh

    near, ours = socket.socketpair()
    for sock in (near, ours):
        sock.setblocking(False)
    relay = asyncio.create_task(_relay(far, ours, overheard))
    try:
        # asyncssh checks the signature over the exchange (which covers the KEXINIT) before it hands out the key.
        key = await asyncssh.get_server_host_key(
            target.address, target.port, sock=near, config=None, kex_algs=KEX, server_host_key_algs=algorithms
        )
    except Exception as error:  # a hostile server can provoke any error inside asyncssh; it is that host's alone
        raise _Failed(_why(error, overheard)) from error
    finally:
        relay.cancel()
        await asyncio.wait([relay])
        for sock in (far, near, ours):
            sock.close()
    if key is None:
        raise _Failed("the key exchange named no host key")
    key_type, blob = key.export_public_key("openssh").decode().split()[:2]
    return HostKey(key_type, blob)


async def _dial(target: Target, names: ThreadPoolExecutor) -> socket.socket:
    """A connected, non-blocking socket: the first of the host's addresses that accepts; raises _Failed."""
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    found = await _resolve(target, names)
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            # A share of the time for each, so that an address that swallows packets leaves some to the next.
            async with asyncio.timeout(CONNECTION_S / (len(found) + 1)):
                await loop.sock_connect(sock, address)
            return sock
        except OSError as error:  # TimeoutError is one
            sock.close()
            failure = error
        except asyncio.CancelledError:
            sock.close()
            raise
    raise _Failed(reason(failure) if failure else "name does not resolve") from failure


async def _resolve(target: Target, names: ThreadPoolExecutor) -> list[Any]:
    def look_up(flags: int) -> list[Any]:
        return socket.getaddrinfo(target.address, target.port, type=socket.SOCK_STREAM, flags=flags)

    with contextlib.suppress(socket.gaierror, UnicodeError):
        return look_up(socket.AI_NUMERICHOST)
    try:
        return await asyncio.get_running_loop().run_in_executor(names, look_up, 0)
    except (socket.gaierror, UnicodeError):
        raise _Failed("name does not resolve") from None


async def _relay(far: socket.socket, ours: socket.socket, overheard: Overheard) -> None:
    """Copy both ways and listen to the server: asyncssh does not say which host key types it was offered."""
    await asyncio.gather(_copy(far, ours, overheard.feed), _copy(ours, far, lambda _: True), return_exceptions=True)


async def _copy(source: socket.socket, sink: socket.socket, listen: Callable[[bytes], bool]) -> None:
    loop = asyncio.get_running_loop()
    try:
        while chunk := await loop.sock_recv(source, 65536):
            if not listen(chunk):
                return
            await loop.sock_sendall(sink, chunk)
    finally:
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def _why(error: Exception, overheard: Overheard) -> str:
    if (foreign := overheard.end()) is not None:
        return foreign.reason
    if overheard.algorithms is None:
        return "closed the connection before the key exchange"
    return f"key exchange failed: {printable(str(error).encode())}"


def _quote(algorithms: tuple[str, ...] | None) -> str:
    return printable(",".join(algorithms or ()).encode()) or "none"


def reason(error: OSError) -> str:
    """The system's words for a failed connection, in lower case."""
    return os.strerror(error.errno).lower() if error.errno else str(error) or "no answer"
