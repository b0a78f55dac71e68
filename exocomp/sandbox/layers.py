"""The layers of a jail by name, what each tier is made of, and what it means that one is missing."""

from __future__ import annotations

from typing import NamedTuple

ENFORCING, DEGRADED, OFF = "enforcing", "degraded", "off"
NAMESPACES, LANDLOCK, SECCOMP = "namespaces", "Landlock", "seccomp"

NOT_APPLIED = 125  # of a command whose jail could not be built; nothing of it ran


class Tier(NamedTuple):
    """`landlock` is the oldest version of its interface (ABI) that will do; 0: not used."""

    namespaces: bool
    landlock: int
    seccomp: bool


# ABI 6 (Linux 6.12) is the first that keeps signals and abstract sockets inside; degraded takes what there is.
TIERS = {
    ENFORCING: Tier(namespaces=True, landlock=6, seccomp=True),
    DEGRADED: Tier(namespaces=False, landlock=1, seccomp=True),
    OFF: Tier(namespaces=False, landlock=0, seccomp=False),
}


class LayerMissing(Exception):
    """A layer cannot be applied here: which, why, and what brings it."""

    def __init__(self, layer: str, reason: str, cure: str) -> None:
        super().__init__(f"{layer}: {reason}; {cure}")
        self.layer = layer
        self.reason = reason
        self.cure = cure
