"""Medians of interleaved rounds, and one line that sets them side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compare(
    what: str, ours: Callable[[], object], theirs: Callable[[], object], *, rounds: int, goal: float, per: int = 1
) -> None:
    """Run both in turns; print medians of one unit in ms (of `per` units a round), their ratio, goal and noise."""
    pairs = [(timed(ours) / per, timed(theirs) / per) for _ in range(rounds)]
    a, b = (statistics.median(column) for column in zip(*pairs, strict=True))
    noise = statistics.pstdev([pair[1] for pair in pairs]) / b
    print(f"{what}: {a * 1e3:.3f} ms against {b * 1e3:.3f} ms, ratio {a / b:.2f} (goal ≤ {goal}), noise ±{noise:.0%}")
