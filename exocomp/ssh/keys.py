"""Public host keys as (type, base64 blob): what counts as one, and its fingerprint."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_POINT_SIZES = {"nistp256": 65, "nistp384": 97, "nistp521": 133}

# Key type → the signature algorithms a server may name for it in its KEXINIT, preferred first (RFC 8332, 5656, 8709).
ALGORITHMS: dict[str, tuple[str, ...]] = {
    "ssh-ed25519": ("ssh-ed25519",),
    "ecdsa-sha2-nistp256": ("ecdsa-sha2-nistp256",),
    "ecdsa-sha2-nistp384": ("ecdsa-sha2-nistp384",),
    "ecdsa-sha2-nistp521": ("ecdsa-sha2-nistp521",),
    "ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"),
}


class HostKey(NamedTuple):
    key_type: str
    key: str  # base64 blob

    def __str__(self) -> str:
        return f"{self.key_type} {fingerprint(self.key)}"


def fingerprint(key: str) -> str:
    """`SHA256:…` of a base64 blob, as ssh-keygen -l prints it."""
    digest = hashlib.sha256(base64.b64decode(key)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def shown(keys: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """`type SHA256:…` of each key, sorted."""
    return tuple(sorted(str(HostKey(*key)) for key in keys))


def read_key(text: str) -> HostKey | None:
    """The key of a `type base64 [comment]` line (a host name may precede); None when it is none that can be used."""
    words = text.split()
    for at, word in enumerate(words[:2]):
        if word in ALGORITHMS and at + 1 < len(words):
            return host_key(word, words[at + 1])
    return None


def host_key(key_type: str, key: str) -> HostKey | None:
    """None for an unknown type, bad base64, or a truncated, overlong or mislabelled blob (RFC 4253 6.6)."""
    try:
        fields = _fields(base64.b64decode(key, validate=True))
        name = next(fields, b"").decode("ascii")
        sizes = [len(field) for field in fields] if name == key_type else []
    except (ValueError, binascii.Error):
        return None
    whole = (
        (key_type == "ssh-ed25519" and sizes == [32])
        or (key_type == "ssh-rsa" and len(sizes) == 2 and all(sizes))
        or (
            (curve := key_type.removeprefix("ecdsa-sha2-")) in _POINT_SIZES
            and sizes == [len(curve), _POINT_SIZES[curve]]
        )
    )
    return HostKey(key_type, key) if whole else None


def _fields(blob: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(blob):
        size = int.from_bytes(blob[at : at + 4], "big")
        field = blob[at + 4 : at + 4 + size]
        if at + 4 > len(blob) or len(field) != size:
            raise ValueError("truncated")
        yield field
        at += 4 + size
