"""The bounded wait in virtual time, with a network made of a function."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from exocomp.actors.base import Mailbox
from exocomp.actors.knock import Heard
from exocomp.actors.prober import Prober, attempt_s, pause_s, span
from exocomp.model import Host
from exocomp.protocol.jobs import Job, ProbeJob
from exocomp.protocol.mail import Answered, Report, RunJob, StopJob

Knock = Callable[[str, int, float], Awaitable[Heard]]
GOOD = Heard(banner="SSH-2.0-fake", open=True)
REFUSED = Heard(silence="connection refused")
CLOSED = Heard(silence="closed the connection without a banner", open=True)


def probe(*hosts: Host, timeout_s: float = 60.0, id: str = "job_1", attempt: int = 1) -> RunJob:
    job = Job(
        id=id,
        workflow="wf_1",
        step="wait",
        spec=ProbeJob(hosts=hosts, timeout_s=timeout_s),
        key=None,
        state="running",
        attempt=attempt,
        created_at=0.0,
    )
    return RunJob(job=job, attempt=attempt)


def host(number: int, port: int = 22) -> Host:
    return Host(name=f"web{number}", address=f"192.0.2.{number}", port=port)


@asynccontextmanager
async def prober(knock: Knock) -> AsyncIterator[tuple[Mailbox[Any], Mailbox[Any]]]:
    """The prober's mailbox and its boss's."""
    boss: Mailbox[Any] = Mailbox()
    actor = Prober(boss=boss, knock=knock)
    async with trio.open_nursery() as nursery:
        await nursery.start(actor.run)
        yield actor.mailbox, boss
        nursery.cancel_scope.cancel()


async def until_report(boss: Mailbox[Any]) -> tuple[list[Answered], Report]:
    answered = []
    async for message, _ in boss:
        if isinstance(message, Report):
            return answered, message
        answered.append(message)
    raise AssertionError


class Network:
    """Places open at their time; everything is refused before."""

    def __init__(self, opens: dict[str, float], before: Heard = REFUSED) -> None:
        self.opens = opens
        self.before = before
        self.knocks: list[tuple[float, str]] = []

    async def __call__(self, address: str, port: int, within_s: float) -> Heard:
        self.knocks.append((trio.current_time(), address))
        await trio.sleep(0.002)
        return GOOD if trio.current_time() >= self.opens.get(address, float("inf")) else self.before


async def test_every_host_that_answers_is_told_and_then_the_report(autojump_clock: trio.testing.MockClock) -> None:
    network = Network({"192.0.2.1": 0.0, "192.0.2.2": 20.0})
    async with prober(network) as (box, boss):
        await box.tell(probe(host(1), host(2)))
        answered, report = await until_report(boss)
    assert [one.host.name for one in answered] == ["web1", "web2"]
    assert 20.0 <= answered[1].after_s <= 20.5
    assert answered[0].banner == "SSH-2.0-fake"
    assert (report.job, report.attempt, report.outcome) == ("job_1", 1, "succeeded")
    assert [(one.host, one.outcome) for one in report.hosts] == [("web1", "answered"), ("web2", "answered")]


async def test_the_deadline_names_every_silent_host_and_what_was_seen(autojump_clock: trio.testing.MockClock) -> None:
    async def knock(address: str, port: int, within_s: float) -> Heard:
        await trio.sleep(0.01)
        return {"192.0.2.1": GOOD, "192.0.2.2": CLOSED}.get(address, REFUSED)

    async with prober(knock) as (box, boss):
        await box.tell(probe(host(1), host(2), host(3, 2222), Host(name="v6", address="2001:db8::7"), timeout_s=15))
        start = trio.current_time()
        answered, report = await until_report(boss)
    assert trio.current_time() - start == pytest.approx(15)
    assert len(answered) == 1
    assert report.outcome == "failed"
    assert report.reason == (
        "3 of 4 hosts did not answer on SSH within 15s: "
        "web2 (192.0.2.2:22: closed the connection without a banner), "
        "web3 (192.0.2.3:2222: connection refused), v6 ([2001:db8::7]:22: connection refused)"
    )
    assert "exocomp provision retry wf_1" in report.hint
    assert [one.outcome for one in report.hosts] == ["answered", "silent", "silent", "silent"]


async def test_a_long_list_is_cut_in_the_reason_and_whole_in_the_hosts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with prober(Network({})) as (box, boss):
        await box.tell(probe(*map(host, range(1, 31)), timeout_s=2))
        _, report = await until_report(boss)
    assert report.reason.count("connection refused") == 10
    assert report.reason.endswith(", and 20 more")
    assert len(report.hosts) == 30


async def test_one_place_with_two_names_is_knocked_at_once_and_told_twice(
    autojump_clock: trio.testing.MockClock,
) -> None:
    network = Network({"2001:db8::7": 0.0})
    twins = (Host(name="a", address="2001:db8::7"), Host(name="b", address="2001:DB8:0::7"))
    async with prober(network) as (box, boss):
        await box.tell(probe(*twins))
        answered, report = await until_report(boss)
    assert [one.host.name for one in answered] == ["a", "b"]
    assert [one.outcome for one in report.hosts] == ["answered", "answered"]
    assert len(network.knocks) == 2


async def test_one_good_banner_is_not_enough(autojump_clock: trio.testing.MockClock) -> None:
    answers = iter([GOOD, REFUSED, REFUSED, GOOD, GOOD])

    async def knock(address: str, port: int, within_s: float) -> Heard:
        return next(answers)

    async with prober(knock) as (box, boss):
        await box.tell(probe(host(1)))
        _, report = await until_report(boss)
    assert report.outcome == "succeeded"
    assert next(answers, None) is None


async def test_a_host_that_drops_every_other_connection_is_up(autojump_clock: trio.testing.MockClock) -> None:
    count = 0

    async def knock(address: str, port: int, within_s: float) -> Heard:
        nonlocal count
        count += 1
        return GOOD if count % 2 else CLOSED

    async with prober(knock) as (box, boss):
        await box.tell(probe(host(1), timeout_s=15))
        _, report = await until_report(boss)
    assert report.outcome == "succeeded"


async def test_a_stopped_job_is_cancelled_and_others_go_on(autojump_clock: trio.testing.MockClock) -> None:
    async with prober(Network({"192.0.2.2": 30.0})) as (box, boss):
        await box.tell(probe(host(1), id="job_1"))
        await box.tell(probe(host(2), id="job_2"))
        await trio.sleep(1)
        await box.tell(StopJob(job="job_1"))
        await box.tell(StopJob(job="job_unknown"))
        _, first = await until_report(boss)
        _, second = await until_report(boss)
    assert (first.job, first.outcome) == ("job_1", "cancelled")
    assert (second.job, second.outcome) == ("job_2", "succeeded")


async def test_each_attempt_gets_its_full_timeout(autojump_clock: trio.testing.MockClock) -> None:
    async with prober(Network({})) as (box, boss):
        for attempt in (1, 2):
            start = trio.current_time()
            await box.tell(probe(host(1), timeout_s=20, attempt=attempt))
            _, report = await until_report(boss)
            assert (report.attempt, trio.current_time() - start) == (attempt, pytest.approx(20))


async def test_orders_are_taken_while_jobs_run(autojump_clock: trio.testing.MockClock) -> None:
    async with prober(Network({})) as (box, boss):
        for number in range(200):
            await box.tell(probe(host(1), timeout_s=5, id=f"job_{number}"))
        assert trio.current_time() == 0
        ended = {(await until_report(boss))[1].job for _ in range(200)}
    assert len(ended) == 200


async def test_an_opened_port_is_soon_known(autojump_clock: trio.testing.MockClock) -> None:
    chance = random.Random(1)
    opens = {f"192.0.2.{number}": chance.uniform(1, 40) for number in range(1, 41)}
    async with prober(Network(opens)) as (box, boss):
        await box.tell(probe(*map(host, range(1, 41))))
        answered, _ = await until_report(boss)
    delays = sorted(one.after_s - opens[one.host.address] for one in answered)
    assert delays[int(len(delays) * 0.95)] <= 0.25


async def test_a_thousand_dead_hosts_are_knocked_at_gently(autojump_clock: trio.testing.MockClock) -> None:
    network = Network({})
    many = [Host(name=f"h{n}", address=f"10.0.{n // 250}.{n % 250 + 1}") for n in range(1000)]
    async with prober(network) as (box, boss):
        await box.tell(probe(*many, timeout_s=60))
        await until_report(boss)
    late = [at for at, _ in network.knocks if at > 40]
    assert len(late) / 20 < 270


def test_the_pause_grows_with_time_and_with_the_crowd() -> None:
    assert pause_s(0, 1, 0) == pause_s(44, 20, 0) == 0.18
    assert pause_s(300, 1, 0) == pytest.approx(1.2)
    assert pause_s(7200, 1, 0) == 5.0
    assert pause_s(60, 1000, 0) == 5.0
    assert pause_s(5, 1000, 0) == 2.5


def test_a_port_that_accepts_and_stays_mute_is_knocked_at_more_slowly() -> None:
    assert [pause_s(0, 1, opened) for opened in range(8)] == [0.18, 0.18, 0.18, 1, 2, 4, 5, 5]


def test_a_slow_host_gets_longer_to_greet_as_time_goes_by() -> None:
    assert [attempt_s(elapsed) for elapsed in (0, 9, 15, 30, 900)] == [3, 3, 5, 10, 10]


def test_spans_read_as_they_are_typed() -> None:
    assert [span(seconds) for seconds in (15.0, 300.0, 90.0, 0.5, 3600.0)] == ["15s", "5m", "1m30s", "0.5s", "60m"]
