"""The whole chain on real machines that a real apply made."""

from __future__ import annotations

import pytest

from exocomp.protocol.events import HostAnswered, HostPinned, OutputsCaptured, StepMoved
from tests.lab.estate import WORKSPACE, Estate
from tests.lab.history import faults

pytestmark = pytest.mark.lab

KEYS = (
    "cat /root/.ssh/authorized_keys /home/*/.ssh/authorized_keys /var/lib/*/.ssh/authorized_keys 2>/dev/null || true"
)


def fleet_key(estate: Estate) -> str:
    """Type and blob, without the comment."""
    return " ".join(estate.home.json("fleet-key", "show")["public_key"].split()[:2])


@pytest.mark.parametrize("count", [1, 5])
def test_machines_are_made_waited_for_pinned_onboarded_and_configured(estate: Estate, count: int) -> None:
    names = [f"web{n}" for n in range(1, count + 1)]
    estate.order(*names)
    estate.home.serve()
    estate.register()
    done = estate.home.run(*estate.chain("site.yml", "--wait"))

    view = estate.home.json("provision", "status")
    assert view["workflow"]["state"] == "succeeded"
    assert [(row["step"]["stage"], row["step"]["state"]) for row in view["steps"]] == [
        ("apply", "succeeded"),
        ("wait", "succeeded"),
        ("onboard", "succeeded"),
        ("onboard", "succeeded"),
        ("configure", "succeeded"),
    ]
    for name in names:
        assert estate.cloud.machine(name).read("/etc/motd") == f"{name} is kept by exocomp\n"
        assert fleet_key(estate) in estate.cloud.machine(name).run(KEYS)
        assert name in done.stdout
    captured = estate.home.of(OutputsCaptured)
    assert [event.message.split(" to inventory ")[0] for event in captured] == ["captured 1 output(s)"]
    assert captured[0].message.endswith(f"naming {count} host(s)")
    assert {event.host for event in estate.home.of(HostAnswered)} == set(names)

    # Again: nothing is made anew, nothing changes.
    estate.home.run(*estate.chain("site.yml", "--wait"))
    view = estate.home.json("provision", "status")
    results = [
        host for row in view["steps"] if row["step"]["name"] in ("onboard", "configure") for host in row["hosts"]
    ]
    assert sorted(host["host"] for host in results) == sorted(names * 2)
    assert [host for host in results if host["changed"] or host["failed"] or host["unreachable"]] == []
    assert [estate.cloud.made(name) for name in names] == [1] * count
    assert faults(estate.home.events()) == []
    estate.home.wait_until_quiet()


def test_the_pin_lands_before_the_onboarding_begins(estate: Estate) -> None:
    estate.order("web1")
    estate.home.serve()
    estate.register()
    estate.home.run(*estate.chain("site.yml", "--wait"))
    events = estate.home.events()
    pinned = [each.seq for each in events if isinstance(each.event, HostPinned)]
    onboarding = [
        each.seq
        for each in events
        if isinstance(each.event, StepMoved) and each.event.step == "onboard" and each.event.new == "running"
    ]
    assert len(onboarding) == 1
    assert pinned
    assert max(pinned) < onboarding[0]
    on_disk = estate.cloud.machine("web1").host_keys()
    listed = estate.home.json("host", "known-hosts", "list")["pins"]
    assert {(pin["key_type"], pin["key"]) for pin in listed} == on_disk
    assert {pin["trust"] for pin in listed} == {"tofu"}


def test_a_port_other_than_22_is_honoured_everywhere(estate: Estate) -> None:
    estate.order("web1", port=2222)
    estate.home.serve()
    estate.register()
    refused = estate.home.run(*estate.chain("site.yml", "--wait"), exit=1)
    assert "--egress 2222" in refused.stdout
    assert estate.home.states()["wait"] == "failed"
    estate.home.run(*estate.chain("site.yml", "--wait", "--egress", "2222"))
    machine = estate.cloud.machine("web1")
    assert [(event.address, event.port) for event in estate.home.of(HostAnswered)] == [(machine.address, 2222)]
    pins = estate.home.json("host", "known-hosts", "list")["pins"]
    assert {pin["name"] for pin in pins} == {f"[{machine.address}]:2222"}
    assert machine.read("/etc/motd") == "web1 is kept by exocomp\n"


def test_a_host_that_a_later_apply_adds_joins_the_inventory(estate: Estate) -> None:
    estate.order("web1")
    estate.home.serve()
    estate.register()
    estate.home.run(*estate.chain("marks.yml", "--wait"))
    estate.order("web1", "web2")
    estate.home.run(*estate.chain("marks.yml", "--wait"))
    assert estate.marks("web1", "/var/lib/ends") == 2
    assert estate.marks("web2", "/var/lib/ends") == 1
    assert estate.home.json("inventory", "show", f"tf:{WORKSPACE}")["current"]["number"] == 2


def test_the_inventorys_own_key_file_serves_for_the_first_login(estate: Estate) -> None:
    estate.order("web1", host_vars={"ansible_ssh_private_key_file": str(estate.key)})
    estate.home.serve()
    estate.register()
    refused = estate.home.run("provision", "run", WORKSPACE, estate.play("site.yml"), "--wait", exit=1)
    assert f"--ssh-identity {estate.key}" in refused.stdout
    estate.home.run(*estate.chain("site.yml", "--wait"))
    assert estate.cloud.machine("web1").read("/etc/motd") == "web1 is kept by exocomp\n"


def test_after_the_onboarding_the_fleet_key_opens_the_host_and_no_other_key_is_needed(estate: Estate) -> None:
    estate.order("web1")
    estate.home.serve()
    estate.register()
    estate.home.run(*estate.chain("site.yml", "--wait"))
    estate.cloud.machine("web1").run("sed -i '/ lab$/d' /root/.ssh/authorized_keys")
    estate.home.run("handoff", "run", WORKSPACE, estate.play("marks.yml"), "--wait")
    assert estate.marks("web1", "/var/lib/ends") == 1


def test_a_failing_play_fails_the_chain_and_names_host_and_step(estate: Estate) -> None:
    estate.order("web1")
    estate.home.serve()
    estate.register()
    done = estate.home.run(*estate.chain("broken.yml", "--wait"), exit=1)
    assert estate.home.states()["configure"] == "failed"
    assert "web1" in estate.home.view().workflow.reason
    assert "web1" in done.stdout


def test_handoff_converges_hosts_that_are_already_onboarded(estate: Estate) -> None:
    estate.order("web1")
    estate.home.serve()
    estate.register()
    estate.home.run(*estate.chain("site.yml", "--wait"))
    identity = ("--ssh-identity", str(estate.key))
    estate.home.run("handoff", "run", WORKSPACE, estate.play("marks.yml"), *identity, "--wait")
    assert estate.marks("web1", "/var/lib/ends") == 1
    steps = estate.home.json("handoff", "status")["steps"]
    assert [row["step"]["name"] for row in steps] == ["apply", "configure"]


def test_handoff_to_a_host_that_was_never_pinned_pushes_nothing(estate: Estate) -> None:
    estate.order("web1")
    estate.home.serve()
    estate.register()
    estate.home.run("workspace", "apply", WORKSPACE, "--wait")
    estate.cloud.machine("web1").wait_until_it_answers()
    identity = ("--ssh-identity", str(estate.key))
    estate.home.run("handoff", "run", WORKSPACE, estate.play("marks.yml"), *identity, "--wait", exit=1)
    assert estate.marks("web1", "/var/lib/marks") == 0


def test_destroy_takes_the_machines_away(estate: Estate) -> None:
    estate.order("web1")
    estate.home.serve()
    estate.register()
    estate.home.run("workspace", "apply", WORKSPACE, "--wait")
    estate.home.run("workspace", "destroy", WORKSPACE, "--yes", "--wait")
    assert ("DELETE", "web1") in estate.cloud.requests
    assert estate.cloud.machines == {}


def test_a_provider_that_refuses_fails_the_apply_and_blocks_the_rest(estate: Estate) -> None:
    estate.order("web1")
    estate.cloud.tell("web1", refused=True)
    estate.home.serve()
    estate.register()
    estate.home.run(*estate.chain("site.yml", "--wait"), exit=1)
    states = estate.home.states()
    assert states.pop("apply") == "failed"
    assert set(states.values()) == {"blocked"}
    assert estate.home.of(OutputsCaptured) == []
