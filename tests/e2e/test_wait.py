"""Step 2: the wait is bounded, and failing is the point."""

from __future__ import annotations

from typing import Any

import pytest

from exocomp.protocol.events import HostAnswered, HostPinned
from tests.lab.estate import Estate

pytestmark = pytest.mark.lab


def test_a_machine_that_starts_20_s_late_is_waited_for(estate: Estate) -> None:
    estate.order("web1", "web2")
    estate.cloud.tell("web2", late_s=20.0)
    estate.home.serve()
    estate.register()
    estate.home.run(*estate.chain("site.yml", "--wait"))
    after = {event.host: event.after_s for event in estate.home.of(HostAnswered)}
    assert set(after) == {"web1", "web2"}
    assert after["web1"] < after["web2"]
    assert estate.cloud.machine("web2").read("/etc/motd") == "web2 is kept by exocomp\n"


@pytest.mark.parametrize("deaf", [{"answers": False}, {"late_s": 600.0}, {"sshd_port": 2022}])
def test_one_that_never_answers_fails_step_2_and_blocks_the_rest(estate: Estate, deaf: dict[str, Any]) -> None:
    estate.order("web1", "web2")
    estate.cloud.tell("web2", **deaf)
    estate.home.serve()
    estate.register()
    done = estate.home.run(*estate.chain("marks.yml", "--ssh-wait", "6s", "--wait"), exit=1)
    assert estate.home.states() == {
        "apply": "succeeded",
        "wait": "failed",
        "pin": "blocked",
        "onboard": "blocked",
        "configure": "blocked",
    }
    reason = estate.home.view().workflow.reason
    assert "web2" in reason
    assert "web1" not in reason
    assert "web2" in done.stdout
    assert estate.home.of(HostPinned) == []
    assert estate.marks("web1", "/var/lib/marks") == 0
    assert estate.marks("web1", "/var/lib/onboardings") == 0


def test_a_retry_goes_on_at_the_wait_without_another_apply(estate: Estate) -> None:
    estate.order("web1")
    estate.cloud.tell("web1", late_s=8.0)
    estate.home.serve()
    estate.register()
    estate.home.run(*estate.chain("site.yml", "--ssh-wait", "2s", "--wait"), exit=1)
    estate.cloud.machine("web1").wait_until_it_answers()
    estate.home.run("provision", "retry", "--wait")
    assert set(estate.home.states().values()) == {"succeeded"}
    assert estate.cloud.made("web1") == 1
