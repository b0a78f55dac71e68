"""Trust on first use, one way: what the keys that a host offers mean beside the ones on record."""

from __future__ import annotations

import enum
from collections.abc import Collection
from collections.abc import Set as AbstractSet

import msgspec

from exocomp.model import Trust
from exocomp.ssh.keys import HostKey, shown

Keys = AbstractSet[tuple[str, str]]  # (type, base64 blob)


class Standing(enum.StrEnum):
    NEW = "new"  # nothing on record
    KNOWN = "known"
    PARTIAL = "partial"  # a recorded key was proven, and types are offered that are not on record
    CHANGED = "changed"
    UNPROVEN = "unproven"  # the keys that would decide were offered, but the scan of them failed


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """`pins` are to be recorded with `trust`; `reason` says why a host is refused."""

    standing: Standing
    pins: frozenset[HostKey] = frozenset()
    trust: Trust = Trust.TOFU
    reason: str = ""

    @property
    def fine(self) -> bool:
        return self.standing not in (Standing.CHANGED, Standing.UNPROVEN)


def judge(recorded: Keys, offered: Keys, declared: Keys | None = None, unscanned: Collection[str] = ()) -> Judgement:
    """Compare sets of (type, blob); `unscanned` are key types that the host offers but whose key did not come.

    - Nothing offered is never success. Two recorded keys of one type contradict each other.
    - Declared keys must all be offered, even on first sight; only they are pinned, as verified.
    - The same type with another key, or no key in common, is a changed key.
    - Types beyond the recorded ones are never added: each key is proven in a connection of its own, so a relay
      could prove the recorded key and slip in another. ssh works with the recorded types alone.
    """
    wanted = declared or frozenset()
    if twice := _twice(recorded):
        return _changed(f"different keys of one type are recorded: {', '.join(shown(twice))}")
    if not offered:
        return Judgement(standing=Standing.UNPROVEN, reason="no host key was offered")
    if missing := wanted - offered:
        return _absent(missing, offered, unscanned, "its inventory declares")
    if other := {key for key in recorded - offered if key[0] in _types(offered)}:
        return _absent(other, offered, unscanned, "recorded")
    if recorded and not recorded & offered:
        return _absent(recorded, offered, unscanned, "recorded")
    if not recorded:
        trust = Trust.VERIFIED if wanted else Trust.TOFU
        return Judgement(standing=Standing.NEW, pins=_host_keys(wanted or offered), trust=trust)
    standing = Standing.PARTIAL if _types(offered) - _types(recorded) else Standing.KNOWN
    return Judgement(standing=standing, pins=_host_keys(wanted - recorded), trust=Trust.VERIFIED)


def _absent(keys: Keys, offered: Keys, unscanned: Collection[str], whose: str) -> Judgement:
    """`keys` did not come: changed, unless the scan of every one of them failed."""
    if _types(keys) <= set(unscanned):
        return Judgement(
            standing=Standing.UNPROVEN, reason=f"the scan of its {', '.join(sorted(_types(keys)))} key failed"
        )
    return _changed(f"{whose} {', '.join(shown(keys))}; offered {', '.join(shown(offered)) or 'no key'}")


def _changed(reason: str) -> Judgement:
    return Judgement(standing=Standing.CHANGED, reason=reason)


def _twice(keys: Keys) -> set[tuple[str, str]]:
    types = [key_type for key_type, _ in keys]
    return {key for key in keys if types.count(key[0]) > 1}


def _types(keys: Keys) -> set[str]:
    return {key_type for key_type, _ in keys}


def _host_keys(keys: Keys) -> frozenset[HostKey]:
    return frozenset(HostKey(*key) for key in keys)
