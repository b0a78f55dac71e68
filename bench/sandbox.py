"""What the jail costs a job: one command through all layers beside the same command started plainly, in ms."""

from __future__ import annotations

import os
import statistics
import tempfile

from bench.ratio import timed
from exocomp.sandbox import child, enclosure
from exocomp.sandbox.layers import DEGRADED, ENFORCING, OFF
from exocomp.sandbox.tiers import probe
from exocomp.sandbox.view import base_view

ROUNDS = 41
GOAL_MS = 100.0


def run(tier: str, home: str) -> None:
    base = base_view()
    jail = {"tier": tier, "read": base.read, "execute": base.execute, "write": (home,), "files": (), "connect": (22,)}
    enclosed = enclosure.enclose(("true",), {"PATH": "/usr/bin:/bin"}, home, jail, "/nonexistent")
    pid = child.spawn(
        enclosed.argv, enclosed.env, home, 1, 2, keep=enclosed.keep, hold_signals=enclosed.in_namespaces
    )
    enclosed.opened()
    code, why = enclosed.ended(os.waitpid(pid, 0)[1])
    assert code == 0, why


def main() -> None:
    probed = timed(probe)
    with tempfile.TemporaryDirectory(prefix="xo-") as home:
        tiers = (OFF, DEGRADED, ENFORCING)
        rounds = [[timed(lambda tier=tier: run(tier, home)) * 1e3 for tier in tiers] for _ in range(ROUNDS)]  # type: ignore[misc]
    plain, *jailed = (statistics.median(column) for column in zip(*rounds, strict=True))
    noise = statistics.pstdev([row[0] for row in rounds]) / plain
    for tier, median in zip(tiers[1:], jailed, strict=True):
        print(
            f"sandbox, {tier}: {median:.1f} ms against {plain:.1f} ms, adds {median - plain:.1f} ms "
            f"(goal ≤ {GOAL_MS:.0f}), noise ±{noise:.0%}"
        )
    print(f"probe at start: {probed * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
