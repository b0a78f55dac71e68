"""The rotation of the fleet key over a real store and real key files: what it starts, and when it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from exocomp.actors.admission import Admission
from exocomp.actors.rotation import Rotation
from exocomp.model import Host, Tier, Workspace
from exocomp.protocol.commands import RotateFleetKey
from exocomp.protocol.events import FleetKeyRotated
from exocomp.protocol.mail import Captured
from exocomp.secrets.sealing import Seal
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.store import events, inventories, steps, workflows, workspaces
from exocomp.store.store import Store, open_writer

OVER_SSH = Host(name="web1", address="192.0.2.1")
LOCAL = Host(name="here", address="here", connection="local")


class House:
    def __init__(self, root: Path) -> None:
        self.keys = FleetKeys(root / "keys", Seal(bytes(32)))
        self.store: Store = open_writer(root / "exocomp.db")
        self.rotation = Rotation(self.store, self.keys)
        self.admission = Admission(
            self.store, standing=root.joinpath, runbooks="/runbooks", tier=Tier.ENFORCING, data_dir=str(root)
        )

    def workspace(self, name: str, *hosts: Host) -> None:
        workspaces.add(self.store, Workspace(name=name, directory="/m", root="/m"))
        got = Captured(inventory=f"tf:{name}", path=f"/g/{name}.json", digest=name, hosts=hosts, outputs=1)
        with self.store.transaction("test") as tx:
            inventories.capture(
                tx, got, workflow="wf_0", workspace=name, standing=f"/{name}.json", message="captured"
            )

    def begin(self) -> list[str]:
        return list(self.rotation.begin(self.admission, RotateFleetKey()).workflows)

    def succeed(self, workflow: str) -> None:
        for number in range(2):
            steps.skip(self.store, steps.of(self.store, workflow)[number], "")

    def fail(self, workflow: str) -> None:
        steps.refuse(self.store, steps.of(self.store, workflow)[0], "no", "")

    def told(self) -> int:
        return sum(isinstance(r.event, FleetKeyRotated) for r in events.after(self.store, 0, limit=1000))


@pytest.fixture
def house(tmp_path: Path):
    house = House(tmp_path)
    yield house
    house.store.close()


def test_it_takes_every_workspace_with_hosts_over_ssh_and_no_other(house: House) -> None:
    house.workspace("edge", OVER_SSH)
    house.workspace("local", LOCAL)
    (workflow,) = house.begin()
    assert workflows.get(house.store, workflow).workspace == "edge"
    assert [step.name for step in steps.of(house.store, workflow)] == ["push", "retire"]


def test_the_new_key_takes_the_place_of_the_old_one_when_no_workspace_lacks_it(house: House) -> None:
    house.workspace("a", OVER_SSH)
    house.workspace("b", OVER_SSH)
    old = house.keys.current().fingerprint
    first, second = house.begin()
    pending = house.keys.pending()
    assert pending is not None
    house.succeed(first)
    house.rotation.conclude()
    assert house.keys.current().fingerprint == old
    assert house.rotation.lacking(pending.fingerprint) == ("b",)
    house.succeed(second)
    house.rotation.conclude()
    assert house.keys.current().fingerprint == pending.fingerprint
    assert house.keys.pending() is None
    assert house.told() == 1


def test_said_again_it_starts_only_what_is_missing_with_the_same_key(house: House) -> None:
    house.workspace("a", OVER_SSH)
    house.workspace("b", OVER_SSH)
    first, second = house.begin()
    pending = house.keys.pending()
    house.succeed(first)
    house.fail(second)
    again = house.rotation.begin(house.admission, RotateFleetKey())
    assert again.done == ("a",)
    assert len(again.workflows) == 1
    assert set(again.workflows).isdisjoint({first, second})
    assert house.begin() == list(again.workflows)
    assert pending is not None
    assert again.fingerprint == pending.fingerprint


def test_a_daemon_that_died_between_the_event_and_the_promotion_is_healed_and_tells_it_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.workspace("edge", OVER_SSH)
    (workflow,) = house.begin()
    house.succeed(workflow)
    with monkeypatch.context() as dying:

        def die(_: Path) -> None:
            raise KeyboardInterrupt

        dying.setattr(FleetKeys, "promote", die)
        with pytest.raises(KeyboardInterrupt):
            house.rotation.conclude()
    assert house.keys.pending() is not None
    Rotation(house.store, house.keys).conclude()
    assert house.keys.pending() is None
    assert house.told() == 1


def test_without_a_rotation_there_is_nothing_to_conclude(house: House) -> None:
    house.workspace("edge", OVER_SSH)
    house.rotation.conclude()
    assert house.told() == 0


def test_a_fleet_without_hosts_has_its_new_key_at_once(house: House) -> None:
    old = house.keys.current().fingerprint
    assert house.begin() == []
    house.rotation.conclude()
    assert house.keys.current().fingerprint != old
