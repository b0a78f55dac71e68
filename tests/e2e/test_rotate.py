"""The fleet key is replaced: pushed over the old one, proven, and only then is the old one taken away."""

from __future__ import annotations

import pytest

from exocomp.protocol.events import FleetKeyRotated
from tests.lab.estate import WORKSPACE, Estate

pytestmark = pytest.mark.lab


def onboarded(estate: Estate, *names: str) -> str:
    """A chain that went to its end; returns the blob of the fleet key that it pushed."""
    estate.order(*names)
    estate.home.serve()
    estate.register()
    estate.home.run(*estate.chain("site.yml", "--wait"))
    return blob(estate)


def blob(estate: Estate) -> str:
    return str(estate.home.json("fleet-key", "show")["public_key"].split()[1])


def authorized(estate: Estate, name: str) -> str:
    machine = estate.cloud.machine(name)
    return machine.read("/root/.ssh/authorized_keys") + machine.read("/home/exocomp/.ssh/authorized_keys")


def test_a_rotation_pushes_the_new_key_proves_it_and_takes_the_old_one_away(estate: Estate) -> None:
    old = onboarded(estate, "web1", "web2")
    estate.home.run("fleet-key", "rotate", "--wait", "--yes")
    new = blob(estate)
    assert new != old
    for name in ("web1", "web2"):
        keys = authorized(estate, name)
        assert keys.count(new) == 2
        assert old not in keys
        estate.cloud.machine(name).run("sed -i '/ lab$/d' /root/.ssh/authorized_keys")
    assert len(estate.home.of(FleetKeyRotated)) == 1
    estate.home.run("handoff", "run", WORKSPACE, estate.play("marks.yml"), "--wait")
    assert estate.marks("web1", "/var/lib/ends") == 1


def test_a_rotation_that_a_host_missed_keeps_both_keys_and_goes_on_when_asked_again(estate: Estate) -> None:
    old = onboarded(estate, "web1", "web2")
    estate.cloud.machine("web2").run("mv /root/.ssh/authorized_keys /root/.ssh/hidden")
    estate.home.run("fleet-key", "rotate", "--wait", "--yes", exit=1)
    assert blob(estate) == old
    pending = estate.home.json("fleet-key", "show")["pending"]
    assert pending["lacking"] == [WORKSPACE]
    assert old in authorized(estate, "web1")
    estate.home.kill()
    estate.home.serve()
    estate.cloud.machine("web2").run("mv /root/.ssh/hidden /root/.ssh/authorized_keys")
    estate.home.run("fleet-key", "rotate", "--wait", "--yes")
    assert blob(estate) == pending["public_key"].split()[1]
    for name in ("web1", "web2"):
        assert old not in authorized(estate, name)
    assert len(estate.home.of(FleetKeyRotated)) == 1
