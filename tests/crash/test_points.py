"""kill -9 at every point where the daemon commits or hands over, then a restart: nothing is lost, nothing twice.

The chain runs over a host with ansible_connection=local, so that it's short; its wait, pin and onboarding are skipped
by the ledger's own rule. tests/e2e/test_kill.py kills inside those.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.lab.history import faults, successes
from tests.lab.home import Home

MODULE = """
resource "terraform_data" "machine" {
  provisioner "local-exec" {
    command = "echo made >>applies"
  }
}
output "ansible_inventory" {
  value      = { all = { hosts = { here = { ansible_connection = "local" } } } }
  depends_on = [terraform_data.machine]
}
"""
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.shell: echo ran >>~/plays
"""

COMMITS = (
    "daemon_started",
    "begin",
    "release.apply",
    "settle.apply.succeeded",
    "skip.wait",
    "skip.pin",
    "skip.onboard",
    "release.configure",
    "settle.configure.succeeded",
)
HANDOVERS = ("prepared", "started", "exited")
POINTS = tuple(f"{name}:{side}" for name in COMMITS for side in ("before", "after")) + tuple(
    f"{name}.{step}" for name in HANDOVERS for step in ("apply", "configure")
)


@pytest.fixture
def home() -> Iterator[Home]:
    home = Home()
    (home.work / "module").mkdir()
    (home.work / "module" / "main.tf").write_text(MODULE)
    (home.work / "play.yml").write_text(PLAY)
    yield home
    home.close()


def register(home: Home) -> None:
    home.run("workspace", "add", "edge", str(home.work / "module"))


def run_chain(home: Home, exit: int | None = 0) -> None:
    home.run("provision", "run", "edge", str(home.work / "play.yml"), exit=exit)


def marks(home: Home) -> dict[str, int]:
    """Lines that applies left in the working copy, and plays in their attempts: all that a job can write."""
    files = {"applies": "workspaces/edge/tree/applies", "plays": "jobs/*/*/home/plays"}
    return {
        name: sum(len(file.read_text().splitlines()) for file in home.data.glob(pattern))
        for name, pattern in files.items()
    }


def test_the_points_are_those_that_a_chain_passes(home: Home) -> None:
    home.serve()
    register(home)
    run_chain(home)
    home.wait_for_end()
    passed = set(home.trace.read_text().splitlines())
    first = {f"{name}:{side}" for name in ("add_workspace", "record_master_key") for side in ("before", "after")}
    assert passed - first == set(POINTS)


@pytest.mark.parametrize("point", POINTS)
def test_killed_at(home: Home, point: str) -> None:
    home.serve()
    register(home)
    home.kill()
    home.serve(crash_at=point, expect_death=True)
    # The client's answer is lost when the daemon dies on its order; the ledger says whether it was taken.
    run_chain(home, exit=None)
    assert home.wait_for_death() == -signal.SIGKILL
    home.serve()
    if not any(each.event.workflow for each in home.events()):
        assert point.startswith(("daemon_started", "begin:before")), point
        run_chain(home)
    view = home.wait_for_end()
    events = home.events()
    assert view.workflow.state == "succeeded", home.told()
    assert faults(events) == [], home.told()
    assert {step: successes(events, step) for step in ("apply", "configure")} == {"apply": 1, "configure": 1}
    assert marks(home) == {"applies": 1, "plays": 1}, home.told()
    home.wait_until_quiet()
    assert json.loads(home.run("provision", "list", "--json").stdout)["workflows"][1:] == []
