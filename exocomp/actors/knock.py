"""One knock at a host's SSH port: TCP connect, banner, hang up; it never logs in."""

from __future__ import annotations

import socket

import msgspec
import trio

from exocomp.ssh.banner import CLIENT_LINE, BannerReader, NotSsh
from exocomp.ssh.keyscan import reason


class Heard(msgspec.Struct, frozen=True):
    """`banner` when an SSH server answered, else `silence` says what was seen; `open` when TCP was accepted."""

    banner: str = ""
    silence: str = ""
    open: bool = False


async def knock(address: str, port: int, within_s: float) -> Heard:
    """Knock once; the whole attempt takes `within_s` seconds at most, however slowly bytes come."""
    is_open = False
    with trio.move_on_after(within_s):
        try:
            stream = await _connect(address, port)
        except (OSError, UnicodeError) as error:
            return Heard(silence=_refusal(error))
        is_open = True
        async with stream:
            said = await _listen(stream)
        return Heard(silence=said.reason, open=True) if isinstance(said, NotSsh) else Heard(banner=said, open=True)
    return Heard(silence=f"{'no SSH banner' if is_open else 'no answer'} within {within_s:g}s", open=is_open)


async def _connect(address: str, port: int) -> trio.SocketStream:
    found = await trio.socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    if len(found) > 1:
        return await trio.open_tcp_stream(address, port)
    # A plain connect costs a third of happy eyeballs, which counts when 1,000 hosts are dead.
    family, kind, protocol, _, place = found[0]
    sock = trio.socket.socket(family, kind, protocol)
    try:
        await sock.connect(place)
    except BaseException:
        sock.close()
        raise
    return trio.SocketStream(sock)


async def _listen(stream: trio.SocketStream) -> str | NotSsh:
    reader = BannerReader()
    try:
        # A multiplexer in front of sshd may wait for the client to speak first.
        await stream.send_all(CLIENT_LINE)
        while chunk := await stream.receive_some(4096):
            said = reader.feed(chunk)
            if said is not None:
                return said
    except trio.BrokenResourceError:
        return reader.end()
    return reader.end()


def _refusal(error: BaseException) -> str:
    """The reason under trio's "all attempts to connect failed"."""
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return "name does not resolve"
    if isinstance(error, BaseExceptionGroup):
        return _refusal(error.exceptions[0])
    if isinstance(error, OSError) and error.errno:
        return reason(error)
    return _refusal(error.__cause__) if error.__cause__ else str(error)
