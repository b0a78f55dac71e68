"""A play's job in, `ansible-playbook` with its files and environment out."""

from __future__ import annotations

import json
import shutil
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

from exocomp.config import Settings
from exocomp.drivers.ansible import environment, pinned_ssh
from exocomp.drivers.ansible.project_config import ProjectConfig
from exocomp.drivers.ansible.record import PROGRESS
from exocomp.errors import ExocompError
from exocomp.protocol.jobs import AttemptSpec, Command, Companion, PlayJob

FEWEST_FORKS, MOST_FORKS = 5, 50  # ansible's own default; what a small control host bears


# With None a variable counts as not given, whatever the inventory says.
_OTHER_LOGINS = dict.fromkeys(
    f"ansible_{name}"
    for name in (
        *("password", "ssh_pass", "ssh_password", "paramiko_pass", "paramiko_password"),
        *("private_key", "ssh_private_key"),
        *("private_key_file", "ssh_private_key_file", "paramiko_private_key_file"),
    )
)


class Fleet(NamedTuple):
    """Public lines of the fleet's keys: which an onboarding pushes, which the agent offers, which is taken away."""

    pushed: str
    offered: tuple[str, ...]
    retired: str | None = None


def prepare(
    job: PlayJob,
    *,
    attempt: Path,
    project: Path,
    playbook: Path,
    inventory: Path,
    known_hosts: str,
    fleet: Fleet,
    agent: Companion | None,
    facts: Path,
    settings: Settings,
    vendored: Path | None = None,
) -> AttemptSpec:
    """Write what the play needs into the attempt directory (0600, 0700) and say what to run.

    `project` and `playbook` are the staged copy, `known_hosts` the pins as ssh reads them, `facts` the directory of
    the shared fact cache, `agent` the holder of the fleet's keys, ready when its socket is, `vendored` a tree with
    `collections` and `roles`. A job that takes a key away logs in with what the agent offers, and with nothing else.
    Raises ExocompError when there is no ansible-playbook or no ssh, or a key file is unusable.
    """
    attempt = attempt.resolve()  # ansible resolves the control path, and the wrapper compares
    program = _program(settings)
    identities = tuple(pinned_ssh.identity(name) for name in job.ssh_identities)
    for directory in (attempt / "home", attempt / "tmp", (attempt / PROGRESS).parent, facts):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    pinned_ssh.write_private(attempt / PROGRESS, "")
    holder = pinned_ssh.Agent(Path(agent.ready), fleet.offered, sole=fleet.retired is not None) if agent else None
    connection = pinned_ssh.write(attempt, known_hosts=known_hosts, identities=identities, agent=holder)
    variables = _variables(job, connection, fleet)
    pinned_ssh.write_private(attempt / "extra_vars.json", json.dumps(variables, ensure_ascii=False))
    pinned_ssh.write_private(attempt / "ansible.cfg", "")
    command = Command(
        name="play",
        argv=(program, *_options(job, inventory, attempt / "extra_vars.json"), "--", str(playbook)),
    )
    env = environment.compose(
        attempt,
        ProjectConfig.of(playbook, project),
        empty_config=attempt / "ansible.cfg",
        facts=facts,
        project=project,
        vendored=vendored,
    )
    if agent:
        env["SSH_AUTH_SOCK"] = agent.ready  # for what a play starts itself, as rsync
    return AttemptSpec(
        commands=(command,), env=env, cwd=str(project), timeout_s=settings.job_timeout_s, companion=agent
    )


def _variables(job: PlayJob, connection: dict[str, str], fleet: Fleet) -> dict[str, Any]:
    """Extra-vars outrank every other variable, so ours come last; what isn't the operator's is never a template."""
    ours = dict(connection)
    if job.onboarding:
        ours["exocomp_fleet_pubkey"] = fleet.pushed.strip()
    if fleet.retired is not None:
        ours["exocomp_retired_pubkey"] = fleet.retired.strip()
    logins = {} if fleet.retired is None else _OTHER_LOGINS
    unsafe = {name: {"__ansible_unsafe": value} for name, value in ours.items()}
    return {**(job.extra_vars or {}), **logins, **unsafe}


def _options(job: PlayJob, inventory: Path, extra_vars: Path) -> list[str]:
    # As --name=value: a value that begins with "-" stays a value.
    options = [f"--inventory={inventory}", f"--extra-vars=@{extra_vars}"]
    options.append(f"--forks={max(FEWEST_FORKS, min(len(job.generation.hosts), MOST_FORKS))}")
    for name, value in (("limit", job.limit), ("tags", job.tags), ("skip-tags", job.skip_tags)):
        if value is not None:
            options.append(f"--{name}={value}")
    options += [f"--{name}" for name, wanted in (("check", job.check), ("diff", job.diff)) if wanted]
    return options


def _program(settings: Settings) -> str:
    if settings.ansible_playbook:
        if found := shutil.which(settings.ansible_playbook):
            return str(Path(found).absolute())
        raise ExocompError(
            f"the setting ansible_playbook names no program: {settings.ansible_playbook}",
            hint="correct it, or remove it to use the ansible-playbook of exocomp's own environment",
        )
    own = Path(sysconfig.get_path("scripts")) / "ansible-playbook"
    if not own.is_file():
        raise ExocompError(
            f"exocomp's environment has no ansible-playbook: {own}", hint="install ansible-core into it"
        )
    return str(own)
