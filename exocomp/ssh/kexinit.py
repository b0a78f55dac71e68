"""What a server says of itself in the clear: its banner and the host key types of its KEXINIT (RFC 4253 7.1)."""

from __future__ import annotations

from exocomp.ssh.banner import BannerReader, NotSsh
from exocomp.ssh.keys import ALGORITHMS

_KEXINIT = 20
_MOST_BYTES = 35_000  # RFC 4253 6.1
_TYPE_OF = {algorithm: key_type for key_type, names in ALGORITHMS.items() for algorithm in names}


class Overheard:
    """Reads a server's side of a connection from its first byte; it never asks for more than it was fed."""

    def __init__(self) -> None:
        self._reader = BannerReader()
        self._packet = b""
        self.banner: str | None = None
        self.foreign: NotSsh | None = None
        self.algorithms: tuple[str, ...] | None = None  # as the server lists them; None until its KEXINIT was read

    def feed(self, chunk: bytes) -> bool:
        """False once it is certain that this is no SSH server."""
        if self.algorithms is not None or self.foreign is not None:
            return self.foreign is None
        if self.banner is None:
            seen = self._reader.feed(chunk)
            if isinstance(seen, NotSsh):
                self.foreign = seen
            if not isinstance(seen, str):
                return self.foreign is None
            self.banner, chunk = seen, self._reader.rest
        self._packet += chunk
        self.algorithms = _host_key_algorithms(self._packet)
        return True

    def end(self) -> NotSsh | None:
        """Why there is no banner; None when there is one."""
        return None if self.banner is not None else self.foreign or self._reader.end()

    @property
    def key_types(self) -> tuple[str, ...] | None:
        """The key types that can be pinned, in the order in which a scan asks for them."""
        if self.algorithms is None:
            return None
        offered = {_TYPE_OF[name] for name in self.algorithms if name in _TYPE_OF}
        return tuple(key_type for key_type in ALGORITHMS if key_type in offered)


def _host_key_algorithms(packet: bytes) -> tuple[str, ...] | None:
    """The second name-list of a KEXINIT packet; None while it is incomplete, () when it is no KEXINIT."""
    size = int.from_bytes(packet[:4], "big")
    if len(packet) < 6 or (size <= _MOST_BYTES and len(packet) < 4 + size):
        return None
    if size > _MOST_BYTES or packet[5] != _KEXINIT:
        return ()
    at = 4 + 1 + 1 + 16
    at += 4 + int.from_bytes(packet[at : at + 4], "big")
    names = packet[at + 4 : at + 4 + int.from_bytes(packet[at : at + 4], "big")]
    return tuple(names.decode("ascii", "replace").split(",")) if names else ()
