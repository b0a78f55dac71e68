"""known_hosts text: read what pins a host, write what a run verifies against (sshd(8))."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from exocomp.model import Host, Pin
from exocomp.ssh.keys import HostKey, host_key
from exocomp.ssh.names import pin_name, spellings

_HASHED = "|1|"


class Entry(msgspec.Struct, frozen=True):
    """One line that pins a key to exact names; `names` are lower-cased, or one hashed `|1|salt|hash`."""

    names: tuple[str, ...]
    key: HostKey

    def pins(self, name: str) -> bool:
        return any(_hash_matches(known, name) if known.startswith(_HASHED) else known == name for known in self.names)


def parse(text: str) -> tuple[Entry, ...]:
    """Every line that is a pin.

    Comments, markers (@revoked, @cert-authority), wildcard and negated patterns, and keys that are
    truncated or of an unknown type are none.
    """
    return tuple(_entries(text))


def recorded(text: str, address: str, port: int) -> frozenset[HostKey]:
    """The keys that `text` pins for a host, under any spelling of its name."""
    names = spellings(address, port)
    return frozenset(entry.key for entry in parse(text) if any(entry.pins(name) for name in names))


def render(pins: Mapping[str, Iterable[Pin]], hosts: Iterable[Host] = ()) -> str:
    """A known_hosts file of pins by name; each line also names its host as each of `hosts` spells the address."""
    spelled: dict[str, dict[str, None]] = {}
    for host in hosts:
        name = pin_name(host.address, host.port)
        spelled.setdefault(name, {}).update(dict.fromkeys(spellings(host.address, host.port)))
    return "".join(
        f"{','.join(dict.fromkeys((name, *spelled.get(name, ()))))} {pin.key_type} {pin.key}\n"
        for name, some in pins.items()
        for pin in some
    )


def render_hashed(pins: Iterable[Pin]) -> str:
    """A known_hosts file with hashed names, one line a pin, each with a salt of its own."""
    return "".join(f"{hashed(pin.name)} {pin.key_type} {pin.key}\n" for pin in pins)


def hashed(name: str, salt: bytes | None = None) -> str:
    salt = os.urandom(20) if salt is None else salt
    return f"{_HASHED}{base64.b64encode(salt).decode()}|{base64.b64encode(_digest(salt, name)).decode()}"


def _entries(text: str) -> Iterator[Entry]:
    for line in text.split("\n"):
        words = line.split()
        if len(words) < 3 or words[0].startswith(("#", "@")):
            continue
        if words[0].startswith(_HASHED):
            names: tuple[str, ...] = (words[0],)
        elif any(mark in words[0] for mark in "*?!"):
            continue
        else:
            names = tuple(words[0].lower().split(","))
        key = host_key(words[1], words[2])
        if key is not None:
            yield Entry(names, key)


def _hash_matches(known: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in known[len(_HASHED) :].split("|"))
    except ValueError:
        return False
    return hmac.compare_digest(digest, _digest(salt, name))


def _digest(salt: bytes, name: str) -> bytes:
    return hmac.new(salt, name.encode(), hashlib.sha1).digest()
