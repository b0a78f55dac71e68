"""Scan jobs and ScanHost, with a scan made of a table."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from exocomp.actors.base import Mailbox
from exocomp.actors.keyscanner import Keyscanner
from exocomp.errors import ExocompError, WrongUsage
from exocomp.model import Host, Pin, Trust
from exocomp.protocol.commands import ScanHost, Scanned
from exocomp.protocol.jobs import Job, ScanJob
from exocomp.protocol.mail import Report, RunJob, StopJob
from exocomp.ssh.keys import HostKey, fingerprint, read_key
from exocomp.ssh.keyscan import ScanResult, Target


def public(private: Any) -> HostKey:
    line = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    found = read_key(line.decode())
    assert found is not None
    return found


ED, OTHER = (public(ed25519.Ed25519PrivateKey.generate()) for _ in range(2))
RSA = public(rsa.generate_private_key(65537, 2048))
WEB1, WEB2 = Host(name="web1", address="192.0.2.1"), Host(name="web2", address="192.0.2.2", port=2222)


def pin(name: str, key: HostKey, workflow: str | None = None) -> Pin:
    return Pin(
        name=name,
        key_type=key.key_type,
        key=key.key,
        trust=Trust.TOFU,
        pinned_at=0.0,
        fingerprint=fingerprint(key.key),
        workflow=workflow,
    )


class World:
    """What hosts offer by address, and what is on record by name."""

    def __init__(self, offered: dict[str, Iterable[HostKey] | ScanResult], recorded: Iterable[Pin] = ()) -> None:
        self.offered = offered
        self.recorded = tuple(recorded)
        self.scanned: list[Target] = []
        self.inventory: dict[str, Host] = {}

    def scan(self, targets: Iterable[Target]) -> dict[Target, ScanResult]:
        targets = tuple(targets)
        self.scanned.extend(targets)
        return {target: self._result(target) for target in targets}

    def _result(self, target: Target) -> ScanResult:
        offered = self.offered.get(target.address, ScanResult(error="connection refused"))
        return offered if isinstance(offered, ScanResult) else ScanResult(keys=frozenset(offered))

    def pins_of(self, name: str) -> tuple[Pin, ...]:
        return tuple(one for one in self.recorded if one.name == name)


@asynccontextmanager
async def keyscanner(world: World, scan: Callable[..., Any] | None = None) -> AsyncIterator[tuple[Mailbox[Any], Any]]:
    boss: Mailbox[Any] = Mailbox()
    actor = Keyscanner(boss=boss, recorded=world.pins_of, inventory_host=world.inventory.get, scan=scan or world.scan)
    async with trio.open_nursery() as nursery:
        await nursery.start(actor.run)
        yield actor.mailbox, boss
        nursery.cancel_scope.cancel()


def order(*hosts: Host) -> RunJob:
    spec = ScanJob(hosts=hosts)
    job = Job(
        id="job_1", workflow="wf_1", step="pin", spec=spec, key=None, state="running", attempt=1, created_at=0.0
    )
    return RunJob(job=job, attempt=1)


async def run(world: World, *hosts: Host) -> Report:
    async with keyscanner(world) as (box, boss):
        await box.tell(order(*hosts))
        async for message, _ in boss:
            assert isinstance(message, Report)
            return message
    raise AssertionError


async def test_new_hosts_are_pinned_with_every_type_that_is_offered() -> None:
    report = await run(World({"192.0.2.1": [ED, RSA], "192.0.2.2": [OTHER]}), WEB1, WEB2)
    assert report.outcome == "succeeded"
    assert {(one.name, one.key_type, one.key) for one in report.pins} == {
        ("192.0.2.1", *ED),
        ("192.0.2.1", *RSA),
        ("[192.0.2.2]:2222", *OTHER),
    }
    assert {(one.trust, one.workflow) for one in report.pins} == {(Trust.TOFU, "wf_1")}
    assert report.pins[0].fingerprint == fingerprint(report.pins[0].key)
    assert [(one.host, one.outcome) for one in report.hosts] == [("web1", "pinned"), ("web2", "pinned")]


async def test_known_hosts_are_pinned_no_further() -> None:
    report = await run(World({"192.0.2.1": [ED, RSA]}, [pin("192.0.2.1", RSA)]), WEB1)
    assert (report.outcome, report.pins) == ("succeeded", ())
    assert report.hosts[0].outcome == "known"
    assert "not on record: ssh-ed25519" in report.hosts[0].detail


async def test_a_changed_key_fails_the_step_names_both_fingerprints_and_pins_nothing() -> None:
    report = await run(World({"192.0.2.1": [OTHER], "192.0.2.2": [ED]}, [pin("192.0.2.1", ED)]), WEB1, WEB2)
    assert (report.outcome, report.pins) == ("failed", ())
    assert "web1 (192.0.2.1): host key changed" in report.reason
    assert fingerprint(ED.key) in report.reason
    assert fingerprint(OTHER.key) in report.reason
    assert "exocomp host onboard web1 --rotate" in report.hint
    assert report.refused == (
        (
            "web1",
            "192.0.2.1",
            (f"ssh-ed25519 {fingerprint(ED.key)}",),
            (f"ssh-ed25519 {fingerprint(OTHER.key)}",),
        ),
    )
    assert [(one.host, one.outcome) for one in report.hosts] == [("web1", "refused"), ("web2", "skipped")]


async def test_ssh_13_a_key_that_this_run_pinned_and_lost_is_called_a_first_boot() -> None:
    theirs = await run(World({"192.0.2.1": [OTHER]}, [pin("192.0.2.1", ED, "wf_0")]), WEB1)
    ours = await run(World({"192.0.2.1": [OTHER]}, [pin("192.0.2.1", ED, "wf_1")]), WEB1)
    assert "first boot" not in theirs.reason
    assert "first boot" in ours.reason
    assert ours.outcome == "failed"


async def test_a_host_that_gives_no_key_fails_the_step_and_is_named() -> None:
    report = await run(World({"192.0.2.1": [ED]}), WEB1, WEB2)
    assert (report.outcome, report.pins, report.refused) == ("failed", (), ())
    assert "web2 ([192.0.2.2]:2222): connection refused" in report.reason
    assert [one.outcome for one in report.hosts] == ["skipped", "failed"]


async def test_a_type_whose_scan_failed_is_no_changed_key() -> None:
    half = ScanResult(keys=frozenset([ED]), unscanned=("ssh-rsa",))
    report = await run(World({"192.0.2.1": half}, [pin("192.0.2.1", RSA)]), WEB1)
    assert (report.outcome, report.refused) == ("failed", ())
    assert "the scan of its ssh-rsa key failed" in report.reason


async def test_what_came_of_a_new_host_is_pinned_and_what_did_not_is_said() -> None:
    half = ScanResult(keys=frozenset([ED]), unscanned=("ssh-rsa",))
    report = await run(World({"192.0.2.1": half}), WEB1)
    assert [one.key_type for one in report.pins] == ["ssh-ed25519"]
    assert "the scan failed: ssh-rsa" in report.hosts[0].detail


def declaring(*keys: str) -> Host:
    return Host(name="web1", address="192.0.2.1", declared_keys=keys)


async def test_a_declared_key_is_verified_and_only_it_is_pinned() -> None:
    report = await run(World({"192.0.2.1": [ED, RSA]}), declaring(" ".join(ED) + " root@web1"))
    assert [(one.key, one.trust) for one in report.pins] == [(ED.key, Trust.VERIFIED)]


@pytest.mark.parametrize("declared", [(" ".join(OTHER),), (" ".join(ED), " ".join(RSA))])
async def test_a_declared_key_that_is_not_offered_is_refused_on_first_sight(declared: tuple[str, ...]) -> None:
    report = await run(World({"192.0.2.1": [ED]}), declaring(*declared))
    assert (report.outcome, report.pins) == ("failed", ())
    assert "host key is not the declared one" in report.reason
    assert report.hosts[0].outcome == "refused"


async def test_a_declaration_that_is_no_key_is_refused_by_name() -> None:
    report = await run(World({"192.0.2.1": [ED]}), declaring("ssh-ed25519 AAAA"))
    assert report.outcome == "failed"
    assert "exocomp_host_keys has 'ssh-ed25519 AAAA'" in report.reason


async def test_hosts_at_one_place_are_scanned_once() -> None:
    world = World({"2001:db8::1": [ED]})
    report = await run(world, Host(name="a", address="2001:db8::1"), Host(name="b", address="2001:DB8:0::1"))
    assert world.scanned == [Target("2001:db8::1", 22)]
    assert [(one.host, one.outcome) for one in report.hosts] == [("a", "pinned"), ("b", "pinned")]
    assert len(report.pins) == 1


async def test_a_stopped_scan_is_cancelled() -> None:
    begun, go_on = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def scan(targets: Iterable[Target]) -> dict[Target, ScanResult]:
        token.run_sync_soon(begun.set)
        go_on.wait(30)
        return {target: ScanResult() for target in targets}

    async with keyscanner(World({}), scan) as (box, boss):
        await box.tell(order(WEB1))
        await begun.wait()
        await box.tell(StopJob(job="job_1"))
        async for message, _ in boss:
            assert message.outcome == "cancelled"
            break
        go_on.set()


async def ask(world: World, question: ScanHost) -> Scanned | ExocompError:
    async with keyscanner(world) as (box, _):
        try:
            answer = await box.ask(question)
        except ExocompError as refusal:
            return refusal
        assert isinstance(answer, Scanned)
        return answer
    raise AssertionError


async def test_scan_host_shows_the_verdict_and_both_sets() -> None:
    world = World({"192.0.2.1": [ED, RSA]}, [pin("192.0.2.1", RSA)])
    scanned = await ask(world, ScanHost(host="192.0.2.1"))
    assert isinstance(scanned, Scanned)
    assert (scanned.name, scanned.port, scanned.verdict) == ("192.0.2.1", 22, "partial")
    assert [one.fingerprint for one in scanned.offered] == [fingerprint(ED.key), fingerprint(RSA.key)]
    assert [one.key for one in scanned.recorded] == [RSA.key]
    other_port = await ask(world, ScanHost(host="192.0.2.1", port=2222))
    assert isinstance(other_port, Scanned)
    assert other_port.verdict == "new"


async def test_scan_host_takes_a_host_of_an_inventory_by_name() -> None:
    world = World({"192.0.2.2": [ED]})
    world.inventory["web2"] = WEB2
    scanned = await ask(world, ScanHost(host="web2"))
    assert isinstance(scanned, Scanned)
    assert (scanned.name, scanned.address, scanned.port) == ("[192.0.2.2]:2222", "192.0.2.2", 2222)


@pytest.mark.parametrize("question", [ScanHost(host="-oProxyCommand=x"), ScanHost(host="a b"), ScanHost(host="")])
async def test_scan_host_refuses_what_is_no_address(question: ScanHost) -> None:
    world = World({})
    refusal = await ask(world, question)
    assert isinstance(refusal, WrongUsage)
    assert "no address" in refusal.what
    assert world.scanned == []


async def test_scan_host_says_why_no_key_came() -> None:
    refusal = await ask(World({}), ScanHost(host="192.0.2.9"))
    assert isinstance(refusal, ExocompError)
    assert "192.0.2.9 port 22: connection refused" in refusal.what
