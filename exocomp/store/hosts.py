"""What plays told of each host: onboarded, converged, changed, reached; and the host view made of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from exocomp.errors import NotFound
from exocomp.model import Generation, Host, Pin
from exocomp.protocol.converging import HostView
from exocomp.protocol.jobs import Job, PlayJob
from exocomp.protocol.mail import Report
from exocomp.protocol.queries import HostResult
from exocomp.store import inventories, jobs, pins
from exocomp.store.store import Store, Transaction

COLUMNS = "onboarded_at, onboarded_by, converged_at, converged_by, playbook, source, changed_at, unreachable, seen_at"
OF = f"SELECT host, {COLUMNS} FROM host_state WHERE inventory = ?"
PUT = """
INSERT INTO host_state (inventory, host, onboarded_at, onboarded_by, converged_at, converged_by, playbook, source,
  changed_at, unreachable, seen_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (inventory, host) DO UPDATE SET
  onboarded_at = coalesce(?3, onboarded_at), onboarded_by = coalesce(?4, onboarded_by),
  converged_at = coalesce(?5, converged_at), converged_by = coalesce(?6, converged_by),
  playbook = coalesce(?7, playbook), source = coalesce(?8, source), changed_at = coalesce(?9, changed_at),
  unreachable = CASE WHEN ?10 THEN unreachable + 1 ELSE 0 END, seen_at = ?11
"""
UNREACHABLE = 4  # ansible-playbook's exit code when hosts were unreachable and the plays went on without them


def record(tx: Transaction, report: Report) -> None:
    """Keep what an ended play tells of the hosts that are still the machines it ran on.

    A host has converged when the play succeeded, or when all that was wrong with it were other hosts that could not
    be reached. After a failed task nobody can tell how far the others came: a play may stop at the first.
    """
    job = jobs.get(tx, report.job)
    spec = job.spec
    if not isinstance(spec, PlayJob) or spec.check:
        return
    current = inventories.find(tx, spec.generation.inventory)
    if current is None:
        return
    ran_on = {host.name: where(host) for host in spec.generation.hosts}
    same = {host.name for host in current.hosts if ran_on.get(host.name) == where(host)}
    is_whole = report.outcome == "succeeded" or (
        report.exit_code == UNREACHABLE and not any(host.failed for host in report.hosts)
    )
    for host in report.hosts:
        if host.host in same and host.outcome != "skipped":
            _put(tx, job, spec, report, host, is_whole)


def _put(tx: Transaction, job: Job, spec: PlayJob, report: Report, host: HostResult, is_whole: bool) -> None:
    good = is_whole and host.outcome in ("ok", "changed")
    onboarded, converged = good and spec.onboarding, good and not spec.onboarding and spec.retiring is None
    tx.run(
        PUT,
        spec.generation.inventory,
        host.host,
        tx.now if onboarded else None,
        job.workflow if onboarded else None,
        tx.now if converged else None,
        job.workflow if converged else None,
        spec.playbook if converged else None,
        report.source if converged else None,
        tx.now if host.changed else None,
        int(host.outcome == "unreachable"),
        tx.now,
    )


def every(store: Store, inventory: str | None = None) -> tuple[HostView, ...]:
    """The hosts of each current generation, or of one inventory's; raises NotFound."""
    if inventory is not None:
        inventories.get(store, inventory)
    standing = {name: inventories.get(store, name) for name, _ in inventories.names(store)}
    claims: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for name, generation in standing.items():
        for host in generation.hosts:
            if host.over_ssh:
                claims[where(host)].add(name)
    known: defaultdict[str, list[Pin]] = defaultdict(list)
    for pin in pins.every(store):
        known[pin.name].append(pin)
    return tuple(
        view
        for name, generation in standing.items()
        if inventory in (None, name)
        for view in _views(store, generation, claims, known)
    )


def named(store: Store, wanted: str) -> tuple[HostView, ...]:
    """Every mention of a host by its name or its address; raises NotFound."""
    lower = wanted.lower()
    found = tuple(view for view in every(store) if wanted == view.host.name or lower == view.host.address.lower())
    if not found:
        raise NotFound(f"no standing inventory names a host {wanted!r}", hint="see `exocomp host list`")
    return found


def where(host: Host) -> tuple[str, int]:
    """What it is dialled by."""
    return host.address.lower(), host.port


def _views(
    store: Store, generation: Generation, claims: dict[tuple[str, int], set[str]], known: dict[str, list[Pin]]
) -> Iterable[HostView]:
    told = {row[0]: row[1:] for row in store.rows(OF, generation.inventory)}
    for host in generation.hosts:
        state = told.get(host.name, (None, None, None, None, None, None, None, 0, None))
        onboarded_at, onboarded_by, converged_at, converged_by, playbook, source, changed_at, streak, seen_at = state
        yield HostView(
            inventory=generation.inventory,
            host=host,
            pins=tuple(known.get(_pin_name(host), ())) if host.over_ssh else (),
            onboarded_at=onboarded_at,
            onboarded_by=onboarded_by,
            converged_at=converged_at,
            converged_by=converged_by,
            playbook=playbook,
            source=source,
            changed_at=changed_at,
            unreachable=streak,
            seen_at=seen_at,
            shared_with=tuple(sorted(claims[where(host)] - {generation.inventory})) if host.over_ssh else (),
        )


def _pin_name(host: Host) -> str:
    address, port = where(host)  # canonical already, as the inventory loader left it
    return address if port == 22 else f"[{address}]:{port}"
