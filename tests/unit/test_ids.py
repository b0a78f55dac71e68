"""Ids: unlike and in order, however fast they are made and wherever the clock jumps."""

from __future__ import annotations

import re
import time

import pytest

from exocomp import ids


def test_ids_of_one_millisecond_are_unlike_and_in_order() -> None:
    made = [ids.new("wf") for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert sorted(made) == made
    assert all(re.fullmatch(r"wf_[0-9a-z]{14}", id) for id in made)


def test_ids_stay_in_order_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ids.new("job")
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now - 3600 * 10**9)
    assert ids.new("job") > before


def test_another_process_draws_other_ids_in_the_same_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 10**18)
    drawn = set()
    for _ in range(100):
        monkeypatch.setattr(ids, "_last", 0)
        drawn.add(ids.new("wf"))
    assert len(drawn) > 90
