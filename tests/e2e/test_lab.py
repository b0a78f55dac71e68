"""The lab does what the other tests rely on."""

from __future__ import annotations

import subprocess

import pytest

from tests.lab import namespaces
from tests.lab.cloud import Cloud
from tests.lab.estate import Estate
from tests.lab.machines import Lab, Machine

pytestmark = pytest.mark.lab


def ssh(estate: Estate, address: str, command: str) -> subprocess.CompletedProcess[str]:
    options = [
        "-F",
        "none",
        "-o",
        "BatchMode=yes",
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
    ]
    argv = [*estate.lab.argv, "ssh", *options, "-i", str(estate.key), f"root@{address}", command]
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def terraform(estate: Estate, *words: str) -> None:
    argv = [*estate.lab.argv, "terraform", *words]
    done = subprocess.run(
        argv, cwd=estate.module, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=estate.home.env()
    )
    assert done.returncode == 0, done.stderr


def test_a_machine_has_its_own_name_root_and_processes(estate: Estate) -> None:
    estate.cloud.create("web1", "10.77.250.10", 22)
    machine = estate.cloud.machine("web1")
    machine.wait_until_it_answers()
    done = ssh(estate, "10.77.250.10", "hostname; cat /proc/1/comm; echo mine >/root/proof; ls /tmp")
    assert (done.returncode, done.stdout) == (0, "web1\nsshd\n")
    assert machine.read("/root/proof") == "mine\n"
    assert machine.run("ls -A /root/.ssh") == "authorized_keys\n"


def test_apply_makes_machines_and_destroy_takes_them_away(estate: Estate) -> None:
    estate.order("web1", "web2")
    terraform(estate, "init", "-input=false")
    terraform(estate, "apply", "-input=false", "-auto-approve")
    for name in ("web1", "web2"):
        estate.cloud.machine(name).wait_until_it_answers()
    terraform(estate, "apply", "-input=false", "-auto-approve")
    assert sorted(estate.cloud.requests) == [("POST", "web1"), ("POST", "web2")]
    terraform(estate, "destroy", "-input=false", "-auto-approve")
    assert estate.cloud.machines == {}


def test_the_cloud_delays_and_refuses(lab: Lab, estate: Estate) -> None:
    cloud = estate.cloud
    cloud.tell("late", late_s=1.0)
    cloud.tell("deaf", answers=False)
    cloud.tell("none", refused=True)
    assert [cloud.create(name, f"10.77.251.{n}", 22) for n, name in enumerate(("late", "deaf", "none"), 10)] == [
        201,
        201,
        503,
    ]
    assert "late" not in cloud.machines
    cloud.machine("late").wait_until_it_answers()
    deaf = cloud.machine("deaf")
    assert deaf.alive
    with pytest.raises(TimeoutError):
        deaf.wait_until_it_answers(1.0)


def test_rekey_changes_every_host_key_and_port_is_where_it_was_asked_for(lab: Lab) -> None:
    machine = Machine(lab, "odd", "10.77.252.10", port=2222)
    try:
        machine.wait_until_it_answers()
        old = machine.host_keys()
        machine.rekey()
        assert machine.host_keys().isdisjoint(old)
        assert machine.run("ss -ltnH | wc -l").strip() in ("1", "2")
    finally:
        machine.power_cut()


def test_a_closed_lab_leaves_nothing(lab: Lab) -> None:
    other = Lab()
    cloud = Cloud(other, other.network())
    cloud.create("web1", "10.77.1.10", 22)
    cloud.machine("web1").wait_until_it_answers()
    cloud.close()
    Machine(other, "web2", "10.77.1.11")
    other.close()
    assert not list(namespaces.NETNS.glob(f"{other.prefix}-*"))
    assert not other.home.exists()
