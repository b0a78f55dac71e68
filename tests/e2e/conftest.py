"""A fleet that a module's tests share: its machines are up, pinned and onboarded, its daemon runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.estate import Estate
from tests.lab.machines import Lab


@pytest.fixture(scope="module")
def fleet(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Estate]:
    """The module's MACHINES; configured by a play that leaves no marks."""
    estate = Estate(lab)
    try:
        estate.order(*request.module.MACHINES)
        estate.home.serve()
        estate.register()
        estate.home.run(*estate.chain("site.yml", "--wait"))
        yield estate
    finally:
        estate.close()
