"""Prepares an attempt: what the drivers need is gathered from the store and staged into its private directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import trio

from exocomp import runbooks, staging
from exocomp.config import Layout, Settings
from exocomp.drivers.ansible import order as ansible
from exocomp.drivers.tofu import order as tofu
from exocomp.inventory import generations
from exocomp.model import Host, Pin
from exocomp.protocol.jobs import AttemptSpec, Job, PlayJob, TofuJob
from exocomp.ssh.fleet_key import FleetKey
from exocomp.ssh.known_hosts import render
from exocomp.ssh.names import pin_name
from exocomp.store import pins
from exocomp.store.store import Store


async def prepare(
    job: Job,
    directory: Path,
    store: Store,
    layout: Layout,
    settings: Settings,
    fleet_key: Callable[[], FleetKey],
) -> AttemptSpec:
    """Make the attempt's directory and what lies in it; raises ExocompError when the job can't be run as ordered."""
    directory.mkdir(mode=0o700, parents=True)
    match job.spec:
        case TofuJob() as spec:
            return await trio.to_thread.run_sync(tofu.prepare, spec, layout, directory, settings, os.environ)
        case PlayJob() as spec:
            known_hosts = known_hosts_of(store, spec.generation.hosts)
            return await trio.to_thread.run_sync(_play, spec, directory, layout, settings, known_hosts, fleet_key)
    raise TypeError(f"{job.kind} jobs are not run by the pool")


def known_hosts_of(store: Store, hosts: tuple[Host, ...]) -> str:
    """The pins of these hosts, and of no other, as ssh reads them."""
    found: dict[str, tuple[Pin, ...]] = {}
    for host in hosts:
        if host.over_ssh:
            name = pin_name(host.address, host.port)
            found[name] = pins.of(store, name)
    return render(found, hosts)


def _play(
    job: PlayJob,
    directory: Path,
    layout: Layout,
    settings: Settings,
    known_hosts: str,
    fleet_key: Callable[[], FleetKey],
) -> AttemptSpec:
    playbook = Path(job.playbook)
    root = playbook.parent if runbooks.is_seeded(playbook) else staging.project_root(playbook)
    staged = staging.stage(root, layout.stage, settings.stage_limit_mib << 20)
    facts = layout.facts / (job.facts or "none")
    facts.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = fleet_key()
    return ansible.prepare(
        job,
        attempt=directory,
        project=staged.path,
        playbook=staged.path / playbook.resolve().relative_to(root.resolve()),
        inventory=generations.private_copy(job.generation, directory),
        known_hosts=known_hosts,
        fleet_private=key.private_path,
        fleet_public=key.public_line,
        facts=facts,
        settings=settings,
    )
