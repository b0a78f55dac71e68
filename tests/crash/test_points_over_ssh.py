"""kill -9 at the points that only a host reached over SSH passes, also a second time while the first is recovered."""

from __future__ import annotations

import signal

import pytest

from tests.lab.estate import Estate
from tests.lab.history import faults, successes

pytestmark = pytest.mark.lab
STEPS = ("apply", "wait", "pin", "onboard", "configure")
POINTS = (
    ("answered:after",),
    ("settle.wait.succeeded:before",),
    ("settle.wait.succeeded:after",),
    ("release.pin:after", "rearm.pin:before"),
    ("settle.pin.succeeded:before", "rearm.pin:after"),
    ("settle.pin.succeeded:after",),
    ("started.onboard", "adopt.onboard:before"),
    ("exited.onboard", "adopt.onboard:after"),
    ("settle.onboard.succeeded:before",),
    ("settle.onboard.succeeded:after", "settle.configure.succeeded:before"),
)


@pytest.mark.parametrize("points", POINTS, ids=" then ".join)
def test_killed_at(estate: Estate, points: tuple[str, ...]) -> None:
    estate.order("web1")
    home = estate.home
    home.serve(crash_at=points[0])
    estate.register()
    home.run(*estate.chain("marks.yml"))
    assert home.wait_for_death() == -signal.SIGKILL
    for point in points[1:]:
        home.serve(crash_at=point, expect_death=True)
        assert home.wait_for_death() == -signal.SIGKILL
    home.serve()
    assert home.wait_for_end().workflow.state == "succeeded", home.told()
    events = home.events()
    assert faults(events) == [], home.told()
    assert {step: successes(events, step) for step in STEPS} == dict.fromkeys(STEPS, 1)
    assert estate.cloud.made("web1") == 1
    assert (estate.marks("web1", "/var/lib/marks"), estate.marks("web1", "/var/lib/ends")) == (1, 1)
    home.wait_until_quiet()
