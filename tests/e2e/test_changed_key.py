"""Step 3: trust on first use is one way."""

from __future__ import annotations

import pytest

from exocomp.protocol.events import HostKeyRefused
from tests.lab.estate import Estate

pytestmark = pytest.mark.lab


def test_a_changed_key_fails_the_step_pins_nothing_and_pushes_nothing(estate: Estate) -> None:
    estate.order("web1", "web2")
    estate.home.serve()
    estate.register()
    estate.home.run(*estate.chain("marks.yml", "--wait"))
    pins = estate.home.json("host", "known-hosts", "list")
    machine = estate.cloud.machine("web1")
    machine.rekey()

    done = estate.home.run(*estate.chain("marks.yml", "--wait"), exit=1)
    states = estate.home.states()
    assert (states["pin"], states["onboard"], states["configure"]) == ("failed", "blocked", "blocked")
    assert estate.home.json("host", "known-hosts", "list") == pins
    refused = estate.home.of(HostKeyRefused)
    assert [event.host for event in refused] == ["web1"]
    assert all("SHA256:" in key for key in (*refused[0].recorded, *refused[0].offered))
    assert set(refused[0].recorded).isdisjoint(refused[0].offered)
    assert "web1" in done.stdout
    for name in ("web1", "web2"):
        assert estate.marks(name, "/var/lib/marks") == 1

    # A person compares the fingerprints and says so; then it goes on.
    estate.home.run("host", "onboard", "web1", exit=6)
    estate.home.run("host", "onboard", "web1", "--rotate", exit=2)
    assert estate.home.json("host", "known-hosts", "list") == pins
    estate.home.run("host", "onboard", "web1", "--rotate", "--yes")
    now = estate.home.json("host", "known-hosts", "list")["pins"]
    of_it = [pin for pin in now if pin["name"] == machine.address]
    assert {(pin["key_type"], pin["key"]) for pin in of_it} == machine.host_keys()
    assert {pin["trust"] for pin in of_it} == {"operator"}
    estate.home.run("provision", "retry", "--wait")
    assert estate.marks("web1", "/var/lib/marks") == 2


def test_a_key_that_changes_between_the_pin_and_the_play_is_noticed_by_the_play(estate: Estate) -> None:
    estate.order("web1")
    estate.home.serve()
    estate.register()
    estate.home.run(*estate.chain("site.yml", "--wait"))
    estate.cloud.machine("web1").rekey()
    identity = ("--ssh-identity", str(estate.key))
    estate.home.run("handoff", "run", "edge", estate.play("marks.yml"), *identity, "--wait", exit=1)
    assert estate.home.states()["configure"] == "failed"
    assert estate.marks("web1", "/var/lib/marks") == 0


def test_a_machine_that_was_made_anew_at_its_old_address_is_refused_until_forgotten(estate: Estate) -> None:
    estate.order("web1")
    estate.home.serve()
    estate.register()
    estate.home.run(*estate.chain("site.yml", "--wait"))
    address = estate.cloud.machine("web1").address
    estate.home.run("workspace", "destroy", "edge", "--yes", "--wait")
    estate.home.run(*estate.chain("site.yml", "--wait"), exit=1)
    assert estate.home.states()["pin"] == "failed"
    estate.home.run("host", "known-hosts", "forget", address, "--yes")
    estate.home.run("provision", "retry", "--wait")
    assert estate.cloud.machine("web1").read("/etc/motd") == "web1 is kept by exocomp\n"
