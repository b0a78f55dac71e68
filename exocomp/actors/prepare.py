"""Prepares an attempt: what the drivers need is gathered from the store and staged into its private directory."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import trio

from exocomp import staging
from exocomp.actors import jails, plans, projects
from exocomp.actors.names import hosts_file
from exocomp.config import Layout, Settings
from exocomp.drivers.ansible import order as ansible
from exocomp.drivers.ansible import pinned_ssh
from exocomp.drivers.tofu import order as tofu
from exocomp.drivers.tofu.files import read_record
from exocomp.drivers.tofu.order import SOURCE
from exocomp.errors import Conflict, ExocompError
from exocomp.inventory import generations
from exocomp.model import Host, Pin
from exocomp.protocol.jobs import AttemptSpec, Job, PlayJob, TofuJob
from exocomp.secrets.sealing import Seal
from exocomp.ssh.companion import companion, users_of
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.ssh.known_hosts import render
from exocomp.ssh.names import pin_name
from exocomp.store import pins, steps
from exocomp.store.store import Store
from exocomp.vendoring import tree


async def prepare(
    job: Job,
    directory: Path,
    store: Store,
    layout: Layout,
    settings: Settings,
    fleet: FleetKeys,
    seal: Seal,
) -> AttemptSpec:
    """Make the attempt's directory and what lies in it; raises ExocompError when the job can't be run as ordered."""
    directory.mkdir(mode=0o700, parents=True)
    match job.spec:
        case TofuJob() as spec:
            return await trio.to_thread.run_sync(_engine, spec, directory, layout, settings, seal)
        case PlayJob() as spec:
            pinned = pins_of(store, spec.generation.hosts)
            (directory / "hosts").write_text(await hosts_file(spec.generation.hosts))
            return await trio.to_thread.run_sync(_play, spec, directory, layout, settings, pinned, fleet)
    raise TypeError(f"{job.kind} jobs are not run by the pool")


def pins_of(store: Store, hosts: tuple[Host, ...]) -> dict[str, tuple[Pin, ...]]:
    """The pins of these hosts, and of no other, by name."""
    names = {pin_name(host.address, host.port): None for host in hosts if host.over_ssh}
    return {name: found for name in names if (found := pins.of(store, name))}


def _engine(job: TofuJob, directory: Path, layout: Layout, settings: Settings, seal: Seal) -> AttemptSpec:
    spec = tofu.prepare(job, layout, directory, settings, os.environ)
    if job.saved is not None:
        plans.fetch(job.saved, directory, seal)
    (directory / "resolv.conf").write_text(jails.resolver(_text(Path("/etc/resolv.conf"))))
    jail = jails.of_engine(
        job,
        directory,
        layout.workspaces / job.workspace.name,
        next(command.argv[0] for command in spec.commands if command.name in ("plan", "apply")),
        settings.sandbox,
    )
    return msgspec.structs.replace(spec, jail=jail)


def _play(
    job: PlayJob,
    directory: Path,
    layout: Layout,
    settings: Settings,
    pinned: dict[str, tuple[Pin, ...]],
    fleet: FleetKeys,
) -> AttemptSpec:
    own = tuple(str(pinned_ssh.identity(name, outside=layout.root)) for name in job.ssh_identities)
    job = msgspec.structs.replace(job, ssh_identities=own)
    playbook = Path(job.playbook)
    root = projects.root_of(playbook)
    staged = staging.stage(root, layout.stage, settings.stage_limit_mib << 20)
    if job.approved not in (None, staged.digest):
        raise Conflict(
            f"the project of {playbook} is not what was approved",
            hint="retry the workflow from its apply: it plans anew and asks again",
        )
    shelved = tree.current(layout.vendor)  # one look: whatever is vendored meanwhile, the attempt keeps this tree
    vendored = None if shelved is None else shelved.path
    source = {"digest": staged.digest, "commit": staged.commit}
    if shelved is not None:
        source |= {"vendored": shelved.digest, "tree": shelved.path.name}
    (directory / SOURCE).write_bytes(msgspec.json.encode(source))
    facts = layout.facts / (job.facts or "none")
    facts.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The pending one first: when it is promoted between the two looks, it is seen as both, never as neither.
    pending, current = fleet.pending(), fleet.current()
    keys = (current,) if pending is None or pending.public_line == current.public_line else (current, pending)
    if job.retiring is not None:
        if keys[-1].fingerprint != job.retiring or len(keys) == 1:
            raise ExocompError(
                f"no rotation of the fleet key to {job.retiring} is under way",
                hint="see `exocomp fleet-key show`; `exocomp fleet-key rotate` begins one or goes on with it",
            )
        keys = keys[1:]
    spec = ansible.prepare(
        job,
        attempt=directory,
        project=staged.path,
        playbook=staged.path / playbook.resolve().relative_to(root.resolve()),
        inventory=generations.private_copy(job.generation, directory),
        known_hosts=render(pinned, job.generation.hosts),
        fleet=ansible.Fleet(
            pushed=keys[-1].public_line,
            offered=tuple(key.public_line for key in keys),
            retired=current.public_line if job.retiring else None,
        ),
        agent=companion(keys, directory, pinned, users_of(job.generation.hosts, job.extra_vars or {}))
        if pinned
        else None,
        facts=facts,
        settings=settings,
        vendored=vendored,
    )
    passwd = jails.passwd(_text(Path("/etc/passwd")), os.geteuid(), directory / "home")
    (directory / "passwd").write_text(passwd)
    program = spec.commands[0].argv[0]
    jail = jails.of_play(job, directory, staged.path, facts, program, settings.sandbox, vendored)
    return msgspec.structs.replace(spec, jail=jail)


def source_of(directory: Path) -> tuple[str | None, str | None]:
    """Digest and git commit of what was staged for an attempt."""
    record = read_record(directory / SOURCE)
    return record.get("digest"), record.get("commit")


def tree_of(directory: Path) -> str | None:
    """The name of the vendored tree that an attempt uses."""
    return read_record(directory / SOURCE).get("tree")


def trees_in_use(store: Store, layout: Layout) -> frozenset[str]:
    """The vendored trees of all running attempts."""
    found = (tree_of(layout.attempt(job.id, job.attempt)) for job in steps.running_jobs(store))
    return frozenset(name for name in found if name)


def _text(file: Path) -> str:
    return file.read_text("utf-8", "replace") if file.exists() else ""
