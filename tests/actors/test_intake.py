"""The door: schedules, rules, plays and inventories that cannot work are refused before anything changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from exocomp.actors.intake import Intake
from exocomp.config import Layout, Settings
from exocomp.errors import ExocompError, NotFound, WrongUsage
from exocomp.inventory import generations
from exocomp.model import Host, Rule, RunOptions, Schedule, Work, Workspace
from exocomp.protocol import commands as c
from exocomp.protocol.mail import Begin, Captured, FireSchedule, TakeInventory
from exocomp.secrets.sealing import Seal
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.store import events, inventories, schedules, workspaces
from exocomp.store.store import StoreUnwell, open_writer

WEB = Host(name="web1", address="192.0.2.1")


class Door:
    """The intake over a data dir with the inventory dc1 of web1, the workspace edge and one playbook."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layout = Layout(root / "d")
        self.playbook = root / "site.yml"
        self.playbook.write_text("- hosts: all\n")
        self.store = open_writer(self.layout.store)
        self.store.db.pragma("synchronous", "OFF")
        workspaces.add(self.store, Workspace(name="edge", directory="/m", root="/m"))
        self.inventory("dc1", WEB)
        self.intake = Intake(self.store, self.layout, Settings(), FleetKeys(self.layout.keys, Seal(bytes(32))))

    def inventory(self, name: str, *hosts: Host) -> None:
        content = {"all": {"hosts": {host.name: {"ansible_host": host.address} for host in hosts}}}
        path, digest = generations.write(content, generations.generations_path(self.layout, name))
        got = Captured(inventory=name, path=str(path), digest=digest, hosts=hosts, outputs=0)
        inventories.take(self.store, got, str(generations.standing_path(self.layout, name)))

    def work(self, **fields: Any) -> Work:
        given = {"kind": "play", "target": "dc1", "playbook": str(self.playbook)} | fields
        options = {name: given.pop(name) for name in RunOptions.__struct_fields__ if name in given}
        return Work(options=RunOptions(**options), **given)

    def order(self, **fields: Any) -> c.StartWorkflow:
        work = self.work(**fields)
        return c.StartWorkflow(kind="play", inventory=work.target, playbook=work.playbook, options=work.options)

    def state(self) -> tuple[int, list[str]]:
        """What would differ if anything had been recorded or written."""
        return events.newest(self.store), sorted(str(path) for path in self.layout.root.rglob("*"))


@pytest.fixture
def door(tmp_path: Path):
    door = Door(tmp_path)
    yield door
    door.store.close()


async def refused(door: Door, command: Any, kind: type[ExocompError] = WrongUsage) -> ExocompError:
    """What the door says; nothing has changed."""
    before = door.state()
    with pytest.raises(kind) as refusal:
        await door.intake.check(command)
    assert type(refusal.value) is kind
    assert door.state() == before
    return refusal.value


BAD_NAMES = ("", "-x", ".x", "a b", "a/b", "../x", "x" * 65, "ü", "a\n", "tf:edge", "a\x1b[31m")


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_a_name_that_could_not_be_typed_or_shown_is_refused(door: Door, name: str) -> None:
    for command, what in (
        (c.AddSchedule(schedule=Schedule(name=name, cron="0 0 3 * * *", work=door.work())), "schedule"),
        (c.AddRule(rule=Rule(name=name, on="host.joined", work=door.work())), "rule"),
    ):
        assert (await refused(door, command)).what == f"{what} name {name!r} is not usable"


@pytest.mark.parametrize("name", ["a", "Fleet-converge_2.0", "0", "x" * 64])
async def test_a_usable_name_passes(door: Door, name: str) -> None:
    schedule = Schedule(name=name, cron="0 0 3 * * *", work=door.work())
    rule = Rule(name=name, on="host.joined", work=door.work())
    assert await door.intake.check(c.AddSchedule(schedule=schedule)) == c.AddSchedule(schedule=schedule)
    assert await door.intake.check(c.AddRule(rule=rule)) == c.AddRule(rule=rule)


@pytest.mark.parametrize(
    ("cron", "zone", "said"),
    [
        ("0 3 * * *", "UTC", "0 3 * * *"),
        ("", "UTC", ""),
        ("@daily", "UTC", "@daily"),
        ("0 0 25 * * *", "UTC", "25"),
        ("0 0 0 30 2 *", "UTC", "0 0 0 30 2 *"),
        ("0 0 3 * * *", "Europe/Atlantis", "Europe/Atlantis"),
        ("0 0 3 * * *", "/etc/passwd", "/etc/passwd"),
    ],
)
async def test_an_impossible_time_is_refused(door: Door, cron: str, zone: str, said: str) -> None:
    error = await refused(door, c.AddSchedule(schedule=Schedule(name="conv", cron=cron, zone=zone, work=door.work())))
    assert said in error.what


async def test_a_time_is_recorded_as_it_is_read(door: Door) -> None:
    given = Schedule(name="conv", cron="  0 0  3 * * MON-FRI ", zone="Europe/Berlin", work=door.work())
    taken = await door.intake.check(c.AddSchedule(schedule=given))
    assert isinstance(taken, c.AddSchedule)
    assert taken.schedule == msgspec.structs.replace(given, cron="0 0 3 * * MON-FRI")


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ({"target": "dc9"}, NotFound, "no inventory 'dc9'"),
        ({"target": "edge"}, NotFound, "no inventory 'edge'"),
        ({"target": "tf:core"}, NotFound, "no inventory 'tf:core'"),
        ({"target": ""}, NotFound, "no inventory ''"),
        ({"playbook": None}, WrongUsage, "a play needs a playbook"),
        ({"playbook": "site.yml"}, WrongUsage, "playbook site.yml is not an absolute path"),
        ({"playbook": "/nonexistent/site.yml"}, WrongUsage, "No such file"),
        ({"playbook": "/"}, WrongUsage, "is not a regular file"),
        ({"playbook": "/dev/null"}, WrongUsage, "is not a regular file"),
        ({"playbook": "/a\0b"}, WrongUsage, "is no path"),
        ({"kind": "apply", "target": "core", "playbook": None}, NotFound, "no workspace 'core'"),
        ({"kind": "plan", "target": "tf:edge", "playbook": None}, NotFound, "no workspace 'tf:edge'"),
        ({"kind": "apply", "target": "edge"}, WrongUsage, "an apply takes no playbook"),
        ({"key": ""}, WrongUsage, "names nothing"),
        ({"key": "  "}, WrongUsage, "names nothing"),
        ({"key": "a\nb"}, WrongUsage, "names nothing"),
        ({"limit": ""}, WrongUsage, "--limit '' names nothing"),
        ({"limit": ",:"}, WrongUsage, "names nothing"),
        ({"tags": " "}, WrongUsage, "--tags ' ' names nothing"),
        ({"skip_tags": ","}, WrongUsage, "--skip-tags ',' names nothing"),
        ({"egress": (0,)}, WrongUsage, "--egress 0 is not a TCP port"),
        ({"egress": (443, 65536)}, WrongUsage, "--egress 65536"),
        ({"ssh_identities": ("key",)}, WrongUsage, "--ssh-identity key is not an absolute path"),
        ({"ssh_identities": ("/nonexistent/key",)}, WrongUsage, "No such file"),
        ({"ssh_wait_s": 0.0}, WrongUsage, "--ssh-wait must be above zero"),
    ],
    ids=str,
)
async def test_work_that_can_never_run_is_refused_of_a_schedule_and_of_a_rule(
    door: Door, fields: dict[str, Any], kind: type[ExocompError], said: str
) -> None:
    work = door.work(**fields)
    for command in (
        c.AddSchedule(schedule=Schedule(name="conv", cron="0 0 3 * * *", work=work)),
        c.AddRule(rule=Rule(name="conv", on="host.joined", work=work)),
    ):
        assert said in (await refused(door, command, kind)).what


async def test_a_fifo_for_a_playbook_is_refused_and_not_waited_at(door: Door) -> None:
    os.mkfifo(door.root / "fifo.yml")
    work = door.work(playbook=str(door.root / "fifo.yml"))
    error = await refused(door, c.AddSchedule(schedule=Schedule(name="conv", cron="0 0 3 * * *", work=work)))
    assert "is not a regular file" in error.what


async def test_work_over_what_an_apply_will_make_passes(door: Door) -> None:
    """What the target is worth is judged at each fire; that nothing refreshes it is wrong from the start."""
    for fields in ({"target": "tf:edge"}, {"target": "dc1"}, {"limit": "nobody"}):
        await door.intake.check(c.AddRule(rule=Rule(name="conv", on="host.joined", work=door.work(**fields))))
    door.inventory("dc1")
    await door.intake.check(c.AddRule(rule=Rule(name="conv", on="host.joined", work=door.work())))


@pytest.mark.parametrize(
    ("on", "match", "limit", "said"),
    [
        ("rule.refused", {}, None, "no event that a rule answers"),
        ("host.joined", {"colour": "red"}, None, "host.joined has no such field"),
        ("workspace.applied", {}, "{host}", "workspace.applied is of no host"),
    ],
)
async def test_a_rule_that_could_fit_nothing_is_refused(
    door: Door, on: str, match: dict[str, str], limit: str | None, said: str
) -> None:
    rule = Rule(name="conv", on=on, match=match, work=door.work(limit=limit))
    assert said in (await refused(door, c.AddRule(rule=rule))).what


# A play by hand


async def test_a_play_by_hand_passes_with_the_name_of_who_asked(door: Door) -> None:
    order = door.order(limit="web1")
    assert await door.intake.check(order, by="uid 1000") == Begin(order=order, by="uid 1000")


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ({"limit": "db*"}, WrongUsage, "--limit 'db*' matches no host of inventory dc1"),
        ({"limit": "web1,db1"}, WrongUsage, "has a part that does not"),
        ({"limit": "@/etc/hosts"}, WrongUsage, "names a file"),
        ({"limit": "web1", "target": "dc9"}, NotFound, "no inventory 'dc9'"),
        ({"limit": "web1", "target": "tf:edge"}, NotFound, "never materialized"),
    ],
    ids=str,
)
async def test_a_play_by_hand_over_nobody_is_refused(
    door: Door, fields: dict[str, Any], kind: type[ExocompError], said: str
) -> None:
    before = events.newest(door.store)
    with pytest.raises(kind) as refusal:
        await door.intake.check(door.order(**fields))
    assert said in refusal.value.what
    assert events.newest(door.store) == before


async def test_what_is_refused_by_hand_is_the_refusal_of_a_fire(door: Door) -> None:
    assert await door.intake.refusal(door.order()) is None
    refusal = await door.intake.refusal(door.order(playbook="/nonexistent/site.yml"))
    assert refusal is not None
    assert "No such file" in refusal.what
    assert refusal.hint == "the daemon must be able to read it"


async def test_a_sick_store_is_no_reason_to_refuse_a_fire_for_good(door: Door) -> None:
    door.store.close()
    door.store.path.write_bytes(b"garbage" * 999)
    door.store.db = apsw.Connection(str(door.store.path))
    with pytest.raises(StoreUnwell):
        await door.intake.refusal(door.order(limit="web1"))


# Fires by hand, and inventories


async def test_a_schedule_that_is_run_by_hand_carries_along_what_its_files_would_be_refused_for(door: Door) -> None:
    await refused(door, c.RunSchedule(name="x"), NotFound)
    schedules.add(door.store, Schedule(name="conv", cron="0 0 3 * * *", work=door.work()), 5e9)
    assert await door.intake.check(c.RunSchedule(name="conv")) == FireSchedule(name="conv")
    door.playbook.unlink()
    fire = await door.intake.check(c.RunSchedule(name="conv"))
    assert isinstance(fire, FireSchedule)
    assert fire.refused is not None
    assert "No such file" in fire.refused.what


@pytest.mark.parametrize(
    ("name", "file", "said"),
    [
        ("tf:edge", "hosts.yml", "belongs to a workspace"),
        ("a b", "hosts.yml", "is not usable"),
        ("dc1", "none.yml", "No such file"),
        ("dc1", "list.yml", "is a list, not a map of groups"),
    ],
)
async def test_an_inventory_that_is_none_is_refused(door: Door, name: str, file: str, said: str) -> None:
    (door.root / "hosts.yml").write_text("all: {hosts: {web9: null}}\n")
    (door.root / "list.yml").write_text("- web9\n")
    assert said in (await refused(door, c.AddInventory(name=name, file=str(door.root / file)))).what


async def test_an_inventory_that_is_one_is_a_file_of_its_own_until_it_is_recorded(door: Door) -> None:
    (door.root / "hosts.yml").write_text("all: {hosts: {web9: null}}\n")
    newest = events.newest(door.store)
    taken = await door.intake.check(c.AddInventory(name="dc1", file=str(door.root / "hosts.yml")))
    assert isinstance(taken, TakeInventory)
    assert [host.name for host in taken.captured.hosts] == ["web9"]
    assert inventories.get(door.store, "dc1").hosts == (WEB,)
    assert events.newest(door.store) == newest
