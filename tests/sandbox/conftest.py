"""Fixtures of the jail's tests: each runs as root and as nobody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox import people
from tests.sandbox.people import Person


@pytest.fixture(scope="module", params=people.names())
def person(request: pytest.FixtureRequest) -> Iterator[Person]:
    with people.a_person(request.param) as person:
        yield person
