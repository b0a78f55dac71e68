"""Fixtures of the lab: one lab a session, one estate a test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.lab import machines
from tests.lab.estate import Estate
from tests.lab.machines import Lab

SLOW = ("tests/crash/", "tests/e2e/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is fast goes first."""
    items.sort(key=lambda item: item.nodeid.startswith(SLOW))


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    if reason := machines.missing():
        # In CI a lab that cannot be built is a failure, never a silent skip.
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    lab = Lab()
    yield lab
    lab.close()


@pytest.fixture
def estate(lab: Lab) -> Iterator[Estate]:
    """A daemon is not started, nothing is registered."""
    estate = Estate(lab)
    yield estate
    estate.close()
