"""Scans and judges the host keys of a job's hosts, all or nothing; it records nothing itself."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
import trio

from exocomp.actors.base import Mailbox
from exocomp.actors.jobtasks import JobTasks
from exocomp.errors import ExocompError, WrongUsage
from exocomp.model import Host, Pin
from exocomp.protocol.commands import ScanHost, Scanned, ScannedKey
from exocomp.protocol.jobs import Job, ScanJob
from exocomp.protocol.mail import Report, RunJob
from exocomp.protocol.queries import HostResult
from exocomp.ssh.judgement import Judgement, Standing, judge
from exocomp.ssh.keys import HostKey, fingerprint, read_key, shown
from exocomp.ssh.keyscan import ScanResult, Target, scan_many
from exocomp.ssh.names import canonical, pin_name

Recorded = Callable[[str], tuple[Pin, ...]]  # by known_hosts name
Scan = Callable[[Iterable[Target]], dict[Target, ScanResult]]

_ADDRESS = re.compile(r"[A-Za-z0-9_:\[][A-Za-z0-9_.:%\[\]-]*")
BATCHES_AT_ONCE = 4


class _Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One known_hosts name: its hosts, what came, what it means."""

    name: str
    hosts: list[Host]
    pinned: tuple[Pin, ...]
    declared: frozenset[HostKey]
    scan: ScanResult
    judgement: Judgement

    @property
    def expected(self) -> frozenset[HostKey]:
        return frozenset(HostKey(pin.key_type, pin.key) for pin in self.pinned) or self.declared


class Keyscanner(JobTasks):
    """Runs scan jobs and answers ScanHost.

    `recorded` gives the pins under a known_hosts name; `inventory_host` a host of a standing inventory by name.

    A first-boot re-key is not waited out: a second scan could be fooled as well as the first, and a changed key is
    never retried. A key that this very run pinned and the host has since replaced is named as what it likely is.
    """

    def __init__(
        self,
        *,
        boss: Mailbox[Any],
        recorded: Recorded,
        inventory_host: Callable[[str], Host | None] = lambda _: None,
        mailbox: Mailbox[Any] | None = None,
        scan: Scan = scan_many,
    ) -> None:
        super().__init__(boss=boss, mailbox=mailbox)
        self._recorded = recorded
        self._inventory_host = inventory_host
        self._scan = scan
        self._threads = trio.CapacityLimiter(BATCHES_AT_ONCE)

    async def work(self, order: RunJob) -> Report:
        spec = order.job.spec
        assert isinstance(spec, ScanJob)
        findings = await self._findings(spec.hosts)
        if bad := [finding for finding in findings if not finding.judgement.fine]:
            return _refused(order, findings, bad)
        return Report(
            job=order.job.id,
            attempt=order.attempt,
            outcome="succeeded",
            hosts=tuple(_result(host, finding) for finding in findings for host in finding.hosts),
            pins=tuple(pin for finding in findings for pin in _pins(finding, order.job)),
        )

    async def handle(self, message: ScanHost) -> Scanned:
        """Scan one host now; raises WrongUsage for what is no address, ExocompError when no key came."""
        host = self._inventory_host(message.host) or Host(name=message.host, address=message.host)
        if message.port is not None:
            host = msgspec.structs.replace(host, port=message.port)
        if not _ADDRESS.fullmatch(host.address) or not 0 < host.port < 65536:
            raise WrongUsage(f"{host.address!r} port {host.port} is no address that can be scanned")
        if host.proxy:
            raise ExocompError(f"{host.name} is reached through a jump host ({host.proxy}), which a scan can't pass")
        (finding,) = await self._findings((host,))
        if not finding.scan.keys:
            raise ExocompError(
                f"no host key came from {host.address} port {host.port}: {finding.scan.error}",
                hint="check the address, the port and the firewall",
            )
        changed = not finding.judgement.fine
        return Scanned(
            name=finding.name,
            address=host.address,
            port=host.port,
            verdict=Standing.CHANGED if changed else finding.judgement.standing,
            offered=_scanned(finding.scan.keys),
            recorded=_scanned(finding.expected),
        )

    async def _findings(self, hosts: Iterable[Host]) -> list[_Finding]:
        """One for each known_hosts name, in the order of the hosts."""
        by_name: dict[str, list[Host]] = {}
        for host in hosts:
            by_name.setdefault(pin_name(host.address, host.port), []).append(host)
        targets = {name: Target(canonical(some[0].address), some[0].port) for name, some in by_name.items()}
        work = partial(self._scan, tuple(targets.values()))
        # Abandoned when the job is stopped: the thread ends at the scan's own deadlines.
        scans = await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads)
        return [self._finding(name, some, scans[targets[name]]) for name, some in by_name.items()]

    def _finding(self, name: str, hosts: list[Host], scan: ScanResult) -> _Finding:
        pinned = self._recorded(name)
        lines = [line for host in hosts for line in host.declared_keys]
        declared = frozenset(key for line in lines if (key := read_key(line)) is not None)
        unusable = [line for line in lines if read_key(line) is None]
        if not scan.keys:
            judgement = Judgement(standing=Standing.UNPROVEN, reason=scan.error or "no host key came")
        elif unusable:
            judgement = Judgement(
                standing=Standing.UNPROVEN,
                reason=f"exocomp_host_keys has {unusable[0][:80]!r}, which is no host key (`type base64`)",
            )
        else:
            recorded = frozenset(HostKey(pin.key_type, pin.key) for pin in pinned)
            judgement = judge(recorded, scan.keys, declared, scan.unscanned)
        return _Finding(name=name, hosts=hosts, pinned=pinned, declared=declared, scan=scan, judgement=judgement)


def _pins(finding: _Finding, job: Job) -> list[Pin]:
    return [
        Pin(
            name=finding.name,
            key_type=key.key_type,
            key=key.key,
            trust=finding.judgement.trust,
            pinned_at=time.time(),
            fingerprint=fingerprint(key.key),
            workflow=job.workflow,
        )
        for key in sorted(finding.judgement.pins)
    ]


def _refused(order: RunJob, findings: list[_Finding], bad: list[_Finding]) -> Report:
    changed = [finding for finding in bad if finding.judgement.standing is Standing.CHANGED]
    words = [f"{host.name} ({finding.name}): {_why(finding, order.job)}" for finding in bad for host in finding.hosts]
    hint = f"look why, then: exocomp provision retry {order.job.workflow}"
    if changed:
        first = changed[0].hosts[0].name
        hint = (
            f"compare the fingerprints with the host's own; if it was rekeyed: exocomp host onboard {first} --rotate"
        )
    return Report(
        job=order.job.id,
        attempt=order.attempt,
        outcome="failed",
        reason="host keys were refused, nothing was pinned: " + "; ".join(words),
        hint=hint,
        hosts=tuple(_result(host, finding, pinning=False) for finding in findings for host in finding.hosts),
        refused=tuple(
            (host.name, finding.name, shown(finding.expected), shown(finding.scan.keys))
            for finding in changed
            for host in finding.hosts
        ),
    )


def _why(finding: _Finding, job: Job) -> str:
    reason = finding.judgement.reason
    if finding.judgement.standing is not Standing.CHANGED:
        return reason
    if any(pin.workflow == job.workflow for pin in finding.pinned):
        return f"host key changed: {reason} (pinned by this run: the host likely made new keys on its first boot)"
    return f"host key changed: {reason}" if finding.pinned else f"host key is not the declared one: {reason}"


def _result(host: Host, finding: _Finding, *, pinning: bool = True) -> HostResult:
    judgement = finding.judgement
    if judgement.standing is Standing.UNPROVEN:
        return HostResult(host=host.name, outcome="failed", detail=judgement.reason)
    if judgement.standing is Standing.CHANGED:
        return HostResult(host=host.name, outcome="refused", detail=judgement.reason)
    if judgement.pins and not pinning:
        return HostResult(host=host.name, outcome="skipped", detail="not pinned, because another host failed")
    notes = [", ".join(shown(judgement.pins or finding.scan.keys & finding.expected))]
    if finding.scan.unscanned:
        notes.append(f"offered, but the scan failed: {', '.join(finding.scan.unscanned)}")
    if judgement.standing is Standing.PARTIAL:
        extra = {key.key_type for key in finding.scan.keys - finding.expected - judgement.pins}
        notes.append(f"offered, but not on record: {', '.join(sorted(extra))}")
    outcome = "pinned" if judgement.pins else "known"
    return HostResult(host=host.name, outcome=outcome, detail="; ".join(notes))


def _scanned(keys: Iterable[HostKey]) -> tuple[ScannedKey, ...]:
    return tuple(
        ScannedKey(key_type=key.key_type, key=key.key, fingerprint=fingerprint(key.key)) for key in sorted(keys)
    )
