"""The server's identification line, read as its bytes come in (RFC 4253 4.2)."""

from __future__ import annotations

import msgspec

CLIENT_LINE = b"SSH-2.0-exocomp\r\n"
# As much before the identification as OpenSSH's line bound allows; a real server greets with a few lines.
MOST_BYTES = 8192
MOST_LINES = 128
SPOKEN_VERSIONS = (b"SSH-2.0-", b"SSH-1.99-")


class NotSsh(msgspec.Struct, frozen=True):
    """What answered is not an SSH 2 server, or not now; `reason` quotes it."""

    reason: str


class BannerReader:
    """Feed it what comes; `rest` is what followed the identification line."""

    def __init__(self) -> None:
        self._buffer = b""
        self._seen = 0
        self._lines = 0
        self._last = b""
        self.rest = b""

    def feed(self, chunk: bytes) -> str | NotSsh | None:
        """The banner without its line end, NotSsh, or None while neither is certain."""
        self._buffer += chunk
        while (end := self._buffer.find(b"\n")) >= 0:
            line, self._buffer = self._buffer[:end].removesuffix(b"\r"), self._buffer[end + 1 :]
            self._seen += end + 1
            if line.startswith(SPOKEN_VERSIONS):
                self.rest = self._buffer
                return printable(line)
            if self._is_foreign(line) or self._is_too_much():
                return NotSsh(f'not SSH: "{printable(line)}"')
            self._lines += 1
            self._last = line or self._last
        if self._is_foreign(self._buffer) or self._is_too_much():
            return NotSsh(f'not SSH: "{printable(self._buffer or self._last)}"')
        return None

    def end(self) -> NotSsh:
        """The connection ended before a banner came."""
        said = self._buffer or self._last
        if said:
            return NotSsh(f'closed the connection after "{printable(said)}"')
        return NotSsh("closed the connection without a banner")

    def _is_foreign(self, line: bytes) -> bool:
        if line.startswith(b"SSH-"):
            return len(line) >= len(b"SSH-1.99-") and not line.startswith(SPOKEN_VERSIONS)
        return line.startswith(b"HTTP/") or b"\0" in line

    def _is_too_much(self) -> bool:
        return self._seen + len(self._buffer) > MOST_BYTES or self._lines >= MOST_LINES


def printable(line: bytes) -> str:
    """At most 80 characters of what a stranger sent, fit for a log line."""
    text = line[:80].decode("ascii", "replace")
    return "".join(char if char.isprintable() and char not in '"\ufffd' else "?" for char in text).strip()
