"""What of a jail this machine can build, found by building it; the answer is plain data for status and doctor."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from collections.abc import Callable
from typing import NamedTuple

from exocomp.sandbox import bubblewrap, enclosure, landlock, seccomp, view
from exocomp.sandbox.layers import (
    DEGRADED,
    ENFORCING,
    LANDLOCK,
    NAMESPACES,
    OFF,
    SECCOMP,
    TIERS,
    LayerMissing,
    Tier,
)

_PATIENCE_S = 10.0
_NONE = Tier(namespaces=False, landlock=0, seccomp=False)


class Layer(NamedTuple):
    """Empty `reason` and `cure`: it works as enforcing needs it. `found` says what there is of it."""

    name: str
    found: str = ""
    reason: str = ""
    cure: str = ""

    @property
    def works(self) -> bool:
        return not self.reason


class Probe(NamedTuple):
    """`layers` from the outermost inward; `achievable` is the strictest tier whose every layer works here."""

    layers: tuple[Layer, ...]
    achievable: str

    @property
    def missing(self) -> tuple[Layer, ...]:
        """What enforcing lacks here."""
        return tuple(layer for layer in self.layers if not layer.works)


@functools.cache
def probe() -> Probe:
    """Starts each layer for real and keeps the answer for the life of this process; blocks for about 0.2 s."""
    attempts = (
        _Attempt(NAMESPACES, _NONE._replace(namespaces=True), bubblewrap.find),
        _Attempt(LANDLOCK, _NONE._replace(landlock=TIERS[DEGRADED].landlock), _landlock_abi),
        _Attempt(SECCOMP, _NONE._replace(seccomp=True), _filter),
    )
    namespaces, confined, filtered = (attempt.result() for attempt in attempts)
    inner = confined.works and filtered.works
    # Of Landlock degraded takes any version that can be applied, enforcing does not.
    strict = _with_abi(confined)
    achievable = ENFORCING if namespaces.works and strict.works and filtered.works else DEGRADED if inner else OFF
    return Probe((namespaces, strict, filtered), achievable)


class _Attempt:
    """One layer put around a program that does nothing, in the background."""

    def __init__(self, name: str, tier: Tier, find: Callable[[], str]) -> None:
        self._missing: LayerMissing | None = None
        self._name = name
        self._found = ""
        try:
            self._found = find()
            base = view.base_view()
            jail = {"read": base.read, "execute": base.execute, "write": (), "files": (), "connect": ()}
            self._enclosed = enclosure.surround(("true",), {"PATH": os.defpath}, "/", jail, "/nonexistent", tier)
            self._process = subprocess.Popen(
                self._enclosed.argv,
                env=self._enclosed.env,
                pass_fds=self._enclosed.keep,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            self._enclosed.opened()
        except LayerMissing as missing:
            self._missing = missing

    def result(self) -> Layer:
        if self._missing is not None:
            return Layer(self._name, self._found, self._missing.reason, self._missing.cure)
        try:
            said = self._process.communicate(timeout=_PATIENCE_S)[1].decode("utf-8", "replace").strip()
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            said = f"it did not come up within {_PATIENCE_S:.0f} s"
        if self._enclosed.was_applied():
            return Layer(self._name, self._found)
        # The launcher names layer, reason and cure; bubblewrap only what failed.
        reason, _, cure = said.removeprefix(enclosure.PREFIX).removeprefix(f"{self._name}: ").partition("; ")
        return Layer(self._name, self._found, reason or "it died", cure or bubblewrap.cure())


def _landlock_abi() -> str:
    return f"ABI {landlock.abi()}"


def _filter() -> str:
    seccomp.program(platform.machine())
    return platform.machine()


def _with_abi(confined: Layer) -> Layer:
    if confined.works:
        try:
            landlock.check(landlock.abi(), TIERS[ENFORCING].landlock)
        except LayerMissing as missing:
            return confined._replace(reason=missing.reason, cure=missing.cure)
    return confined
