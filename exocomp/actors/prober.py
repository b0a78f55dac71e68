"""The bounded SSH wait: knocks at every host of a job until each answers or the time is up."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
import trio

from exocomp.actors.base import Mailbox
from exocomp.actors.jobtasks import JobTasks
from exocomp.actors.knock import Heard, knock
from exocomp.model import Host
from exocomp.protocol.jobs import Job, ProbeJob
from exocomp.protocol.mail import Answered, Report, RunJob
from exocomp.protocol.queries import HostResult
from exocomp.ssh.names import canonical

Knock = Callable[[str, int, float], Awaitable[Heard]]
Place = tuple[str, int]  # canonical address, port

OPEN_SOCKETS = 400  # of all jobs together; the usual limit of a process is 1,024 descriptors
NAMED = 10
STABLE_S = 0.05
GOOD_IN_ALL = 3  # good knocks that do for a host which also drops some


def pause_s(elapsed_s: float, waiting: int, opened: int) -> float:
    """How long to wait before the next knock, before jitter.

    At most 0.18 s for the first 45 s, then a 250th of the time waited, up to 5 s; never so short that all
    `waiting` places together get more than 400 knocks a second, 200 after half a minute. A port that accepts
    without a banner for the `opened`-th time gets 1, 2, 4, 5 s: sshd may be counting us (MaxStartups,
    PerSourcePenalties).
    """
    crowd = waiting / (400 if elapsed_s < 30 else 200)
    patience = min(5.0, max(0.18, elapsed_s / 250, crowd))
    return max(patience, min(5.0, 2.0 ** (opened - 3))) if opened > 2 else patience


def attempt_s(elapsed_s: float) -> float:
    """The bound of one knock: 3 s at first, up to 10 s for hosts that are slow to greet."""
    return min(10.0, max(3.0, elapsed_s / 3))


class _Round(msgspec.Struct):
    """One job's wait: who lives where, and what was last seen of each place."""

    job: Job
    started: float
    homes: dict[Place, list[Host]]
    seen: dict[Place, Heard]
    waiting: int


class Prober(JobTasks):
    """Runs probe jobs. Each attempt of a job gets its full timeout: a daemon restart re-arms the wait anew."""

    def __init__(self, *, boss: Mailbox[Any], mailbox: Mailbox[Any] | None = None, knock: Knock = knock) -> None:
        super().__init__(boss=boss, mailbox=mailbox)
        self._knock = knock
        self._sockets = trio.CapacityLimiter(OPEN_SOCKETS)

    async def work(self, order: RunJob) -> Report:
        spec = order.job.spec
        assert isinstance(spec, ProbeJob)
        homes: dict[Place, list[Host]] = {}
        for host in spec.hosts:
            homes.setdefault((canonical(host.address), host.port), []).append(host)
        unseen = Heard(silence="not tried")
        around = _Round(order.job, trio.current_time(), homes, dict.fromkeys(homes, unseen), len(homes))
        with trio.move_on_after(spec.timeout_s):
            async with trio.open_nursery() as nursery:
                for place in homes:
                    nursery.start_soon(self._await_place, around, place)
        return _report(order, spec, around)

    async def _await_place(self, around: _Round, place: Place) -> None:
        good = opened = 0
        while True:
            heard = await self._try(around, place)
            if heard.banner:
                up, good = heard, good + 1
                if good == GOOD_IN_ALL:
                    break
                await trio.sleep(STABLE_S)
                heard = await self._try(around, place)
                if heard.banner:
                    break
            around.seen[place] = heard
            opened = opened + 1 if heard.open else 0
            pause = pause_s(trio.current_time() - around.started, around.waiting, opened)
            await trio.sleep(pause * random.uniform(0.75, 1.0))
        around.seen[place] = up
        around.waiting -= 1
        after_s = trio.current_time() - around.started
        for host in around.homes[place]:
            await self.boss.tell(Answered(job=around.job.id, host=host, after_s=after_s, banner=up.banner))

    async def _try(self, around: _Round, place: Place) -> Heard:
        async with self._sockets:
            return await self._knock(*place, attempt_s(trio.current_time() - around.started))


def _report(order: RunJob, spec: ProbeJob, around: _Round) -> Report:
    hosts, silent = [], []
    for host in spec.hosts:
        heard = around.seen[(canonical(host.address), host.port)]
        if heard.banner:
            hosts.append(HostResult(host=host.name, outcome="answered", detail=heard.banner))
        else:
            hosts.append(HostResult(host=host.name, outcome="silent", detail=heard.silence))
            silent.append(f"{host.name} ({shown(host)}: {heard.silence})")
    if not silent:
        return Report(job=order.job.id, attempt=order.attempt, outcome="succeeded", hosts=tuple(hosts))
    return Report(
        job=order.job.id,
        attempt=order.attempt,
        outcome="failed",
        reason=f"{len(silent)} of {len(hosts)} hosts did not answer on SSH within {span(spec.timeout_s)}: "
        + listed(silent),
        hint=f"look at the machines' consoles and the firewall, then: exocomp provision retry {order.job.workflow}",
        hosts=tuple(hosts),
    )


def listed(parts: Iterable[str]) -> str:
    """The first ten, and how many more."""
    parts = tuple(parts)
    more = f", and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
    return ", ".join(parts[:NAMED]) + more


def shown(host: Host) -> str:
    return f"[{host.address}]:{host.port}" if ":" in host.address else f"{host.address}:{host.port}"


def span(seconds: float) -> str:
    """15 → "15s", 300 → "5m", 90 → "1m30s"."""
    if seconds < 60 or seconds != int(seconds):
        return f"{seconds:g}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if rest else f"{minutes}m"
