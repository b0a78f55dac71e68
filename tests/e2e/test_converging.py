"""Schedules over standing inventories: machines that join are converged by the next tick; nothing runs blindly."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from exocomp.protocol.events import AnyEvent
from exocomp.protocol.fired import ScheduleFired, ScheduleRefused
from tests.lab.estate import WORKSPACE, Estate
from tests.lab.history import faults
from tests.lab.home import Home

pytestmark = pytest.mark.lab
MACHINES = ("web1",)
EVERY_S = 3
ENDS = "/var/lib/ends"
STANDING = f"tf:{WORKSPACE}"
EMPTY = 'output "region" { value = "eu" }\n'


@contextlib.contextmanager
def scheduled(estate: Estate, name: str, target: str) -> Iterator[None]:
    """A schedule that fires every few seconds; at the end it is gone and what it started is over."""
    words = ("--cron", f"*/{EVERY_S} * * * * *", "--target", target, "--", estate.play("marks.yml"))
    estate.home.run("schedule", "add", name, *words)
    try:
        yield
    finally:
        estate.home.run("schedule", "remove", name, "--yes")
    wait_until_idle(estate.home)


def wait_until_idle(home: Home) -> None:
    until(lambda: not running(home), home)


def running(home: Home) -> list[str]:
    """Ids of what has not ended."""
    found = home.json("provision", "list", "--all", "-n", "1000")["workflows"]
    return [each["workflow"]["id"] for each in found if each["workflow"]["state"] == "running"]


def until(wanted: Callable[[], Any], home: Home, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not wanted():
        assert time.monotonic() < deadline, home.told()
        time.sleep(0.1)


def fired(name: str, after: float = 0.0) -> Callable[[AnyEvent], bool]:
    """Whether an event says that the schedule started something for a time after that one."""
    return lambda event: isinstance(event, ScheduleFired) and event.schedule == name and (event.due_at or 0) > after


def of_the_schedule(home: Home, name: str) -> dict[str, Any]:
    """All that is recorded of it but its times."""
    shown = home.json("schedule", "show", name)["schedule"]
    return {field: value for field, value in shown.items() if field not in ("next_at", "planned_at")}


def jobs(home: Home) -> set[str]:
    return {each["id"] for each in home.json("job", "list", "-n", "1000")["jobs"]}


def every_mark(estate: Estate) -> dict[str, int]:
    return {name: estate.marks(name, "/var/lib/marks") for name in estate.cloud.machines}


def assert_it_fails_closed(estate: Estate, name: str, target: str, words: str) -> None:
    """Two fires on end start nothing, leave every machine as it was, and say why wherever somebody may look."""
    home = estate.home
    wait_until_idle(home)
    before, now = (jobs(home), every_mark(estate)), time.time()

    def refused(event: AnyEvent) -> bool:
        return isinstance(event, ScheduleRefused) and event.schedule == name and (event.due_at or 0) > now + EVERY_S

    event = home.wait_for(refused, f"a second refusal of {name}").event
    assert isinstance(event, ScheduleRefused)
    assert words in event.reason
    assert event.hint
    assert event.target == target
    fires = home.json("schedule", "history", name)["fires"]
    latest = [each for each in fires if datetime.fromisoformat(each["at"]).timestamp() > now]
    assert len(latest) >= 2
    assert {(each["outcome"], each["reason"]) for each in latest} == {("refused", event.reason)}
    assert {each["workflow"] for each in latest} == {None}
    rows = home.run("schedule", "list").stdout.splitlines()
    (at,) = [number for number, row in enumerate(rows) if row.split()[0] == name]
    assert rows[at].rstrip().endswith("fails closed")
    assert words in rows[at + 1]
    assert f"schedule {name} started nothing (refused): {event.reason}" in home.daemon_log()
    assert (jobs(home), every_mark(estate)) == before
    assert running(home) == []


def test_a_machine_that_an_apply_adds_is_converged_by_the_next_tick_and_the_schedule_is_as_it_was(
    fleet: Estate,
) -> None:
    home, name = fleet.home, "fleet-converge"
    with scheduled(fleet, name, STANDING):
        as_added = of_the_schedule(home, name)
        home.wait_for(fired(name), "a fire")
        until(lambda: fleet.marks("web1", ENDS), home)
        fires = len(home.json("schedule", "history", name)["fires"])
        fleet.order("web1", "web2")
        home.run(*fleet.chain("site.yml", "--wait"))

        tick = home.wait_for(fired(name, after=time.time()), "the next tick").event
        assert tick.workflow is not None
        until(lambda: home.view(tick.workflow).workflow.state != "running", home)
        (step,) = home.view(tick.workflow).steps
        assert {host.host: host.failed + host.unreachable for host in step.hosts} == {"web1": 0, "web2": 0}
        assert fleet.marks("web2", ENDS) >= 1
        assert of_the_schedule(home, name) == as_added
        assert len(home.json("schedule", "history", name)["fires"]) > fires
    assert faults(home.events()) == []


@pytest.mark.parametrize("which", ["standing", "generation"])
@pytest.mark.parametrize(("broken", "words"), [(None, "is lost"), (b"#", "is not generation")])
def test_over_a_file_that_is_lost_or_altered_no_play_runs_until_it_is_back(
    fleet: Estate, which: str, broken: bytes | None, words: str
) -> None:
    shown = fleet.home.json("inventory", "show", STANDING)
    file = Path(shown["file"] if which == "standing" else shown["current"]["path"])
    assert file.is_relative_to(fleet.home.data)
    sound = file.read_bytes()
    file.unlink()
    if broken is not None:
        file.write_bytes(sound[:-1] + broken)
    try:
        name = f"over-{'lost' if broken is None else 'altered'}-{which}"
        with scheduled(fleet, name, STANDING):
            assert_it_fails_closed(fleet, name, STANDING, words)
            file.write_bytes(sound)
            marks = fleet.marks("web1", ENDS)
            fleet.home.wait_for(fired(name), "a fire over the file that is back")
            until(lambda: fleet.marks("web1", ENDS) > marks, fleet.home)
            assert "fails closed" not in fleet.home.run("schedule", "list").stdout
    finally:
        file.write_bytes(sound)


@pytest.mark.parametrize(
    ("workspace", "applied", "words"), [("bare", True, "names no hosts"), ("fresh", False, "was never materialized")]
)
def test_over_a_workspace_that_has_no_hosts_no_play_runs(
    fleet: Estate, workspace: str, applied: bool, words: str
) -> None:
    module = fleet.home.work / workspace
    module.mkdir()
    (module / "main.tf").write_text(EMPTY)
    fleet.home.run("workspace", "add", workspace, str(module))
    if applied:
        fleet.home.run("workspace", "apply", workspace, "--wait")
    with scheduled(fleet, f"over-{workspace}", f"tf:{workspace}"):
        assert_it_fails_closed(fleet, f"over-{workspace}", f"tf:{workspace}", words)


def test_an_inventory_that_is_removed_under_its_schedule_lets_no_play_run(fleet: Estate) -> None:
    home, machine = fleet.home, fleet.cloud.machine("web1")
    file = home.work / "own.json"
    file.write_text(
        json.dumps({"all": {"hosts": {"web1": {"ansible_host": machine.address, "ansible_user": "root"}}}})
    )
    home.run("inventory", "add", "own", str(file))
    marks = fleet.marks("web1", ENDS)
    with scheduled(fleet, "over-own", "own"):
        until(lambda: fleet.marks("web1", ENDS) > marks, home)
        assert "over-own" in home.run("inventory", "remove", "own", "--yes", exit=6).stderr
        home.run("inventory", "remove", "own", "--yes", "--force")
        assert_it_fails_closed(fleet, "over-own", "own", "no inventory 'own'")


def test_a_destroyed_workspace_has_its_inventory_retired_and_its_schedule_says_so(estate: Estate) -> None:
    home = estate.home
    estate.order("web1")
    home.serve()
    estate.register()
    home.run(*estate.chain("site.yml", "--wait"))
    with scheduled(estate, "fleet-converge", STANDING):
        until(lambda: estate.marks("web1", ENDS), home)
        home.run("workspace", "destroy", WORKSPACE, "--yes", "--wait")
        assert estate.cloud.machines == {}
        retired = home.json("inventory", "show", STANDING)
        assert (retired["current"]["hosts"], retired["sound"]) == ([], True)
        assert "web1" not in Path(retired["file"]).read_text()
        (destroy,) = [each for each in home.json("provision", "list", "--all")["workflows"] if
                      each["workflow"]["kind"] == "destroy"]  # fmt: skip
        words = f"workspace {WORKSPACE} was destroyed by {destroy['workflow']['id']}"
        assert_it_fails_closed(estate, "fleet-converge", STANDING, words)
