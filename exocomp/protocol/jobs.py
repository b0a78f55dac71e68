"""Jobs (verb + tool): immutable specs of one unit of execution, and what the shim is told to run."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from exocomp.approval import Gate, SavedPlan
from exocomp.model import Generation, Host, Workspace


class Verb(enum.StrEnum):
    PLAN = "plan"
    APPLY = "apply"
    DESTROY = "destroy"


class TofuJob(msgspec.Struct, frozen=True, kw_only=True, tag="tofu"):
    """One plan, apply or destroy of a workspace.

    At its `gate` it ends with the plan saved and nothing applied; with `saved` it applies that plan and no other.
    `followed_by` are the playbooks after it, whose projects are part of what is asked at the gate.
    """

    verb: Verb
    workspace: Workspace
    gate: Gate = Gate.NEVER
    saved: SavedPlan | None = None
    followed_by: tuple[str, ...] = ()


class PlayJob(msgspec.Struct, frozen=True, kw_only=True, tag="ansible"):
    """One play over one generation of a standing inventory.

    `playbook` is an absolute path; `onboarding` grants the fleet's public key as an extra-var; `retiring` is the
    fingerprint of the pending fleet key: it alone logs in, and the current key's line is granted as an extra-var;
    `facts` names the fact cache that plays of one workflow share; `approved` is the digest that its project must
    have, when a person approved it.
    """

    playbook: str
    generation: Generation
    onboarding: bool = False
    retiring: str | None = None
    facts: str = ""
    limit: str | None = None
    tags: str | None = None
    skip_tags: str | None = None
    check: bool = False
    diff: bool = False
    extra_vars: dict[str, Any] | None = None
    ssh_identities: tuple[str, ...] = ()
    egress: tuple[int, ...] = ()
    approved: str | None = None


class ProbeJob(msgspec.Struct, frozen=True, kw_only=True, tag="probe"):
    """The bounded SSH wait for `hosts` (ssh hosts only)."""

    hosts: tuple[Host, ...]
    timeout_s: float


class ScanJob(msgspec.Struct, frozen=True, kw_only=True, tag="scan"):
    """Scan and judge the host keys of `hosts` (ssh hosts only)."""

    hosts: tuple[Host, ...]


JobSpec = TofuJob | PlayJob | ProbeJob | ScanJob


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the ledger has it; `key` is its concurrency key, `attempt` the number of the latest try."""

    id: str
    workflow: str
    step: str
    spec: JobSpec
    key: str | None
    state: str
    attempt: int
    created_at: float
    ended_at: float | None = None
    reason: str = ""
    hint: str = ""

    @property
    def kind(self) -> str:
        return str(type(self.spec).__struct_config__.tag)


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One process of an attempt; `stdout` names a file of the attempt directory, "log" is appended to."""

    name: str
    argv: tuple[str, ...]
    stdout: str = "log"
    ok: tuple[int, ...] = (0,)  # exit codes after which the next command runs


class Jail(msgspec.Struct, frozen=True, kw_only=True):
    """What a job may reach; absolute paths. Everything that is not named here does not exist for it.

    `read` and `execute` are trees or files (skipped when absent), `write` directories of the job's own;
    `connect` TCP ports on any address. `files` are put at fixed places: (source, place), read-only.
    """

    tier: str  # enforcing, degraded or off
    read: tuple[str, ...] = ()
    execute: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    connect: tuple[int, ...] = ()


class Companion(msgspec.Struct, frozen=True, kw_only=True):
    """A process beside the commands and outside their jail, from before the first to after the last.

    It reads `secret` from the descriptor whose number replaces "{fd}" in `argv`, and is ready when `ready` exists.
    """

    argv: tuple[str, ...]
    secret: str
    ready: str  # a path, such as its socket


class AttemptSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Commands run in order until one exits with a code outside its `ok`; `timeout_s` bounds them together."""

    commands: tuple[Command, ...]
    env: dict[str, str]
    cwd: str
    timeout_s: float | None = None
    grace_s: float = 30.0
    jail: Jail | None = None
    companion: Companion | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One live line of a running job: a resource of an apply, or a task on a host.

    `state` is one of started, ok, changed, skipped, failed, unreachable, warning, error, plain.
    """

    state: str
    subject: str = ""  # resource address or host name
    what: str = ""  # task name or action
    detail: str = ""
    elapsed_s: float | None = None
