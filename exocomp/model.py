"""The nouns, their states, and the table of lawful moves; no I/O."""

from __future__ import annotations

import enum
from typing import Any, Literal

import msgspec


class StepState(enum.StrEnum):
    BLOCKED = "blocked"
    READY = "ready"
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunState(enum.StrEnum):
    """State of a workflow and of a job."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptState(enum.StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    LOST = "lost"


class Trust(enum.StrEnum):
    """How a host key became trusted."""

    TOFU = "tofu"
    VERIFIED = "verified"
    OPERATOR = "operator"


class Tier(enum.StrEnum):
    """How much stands around a job: all layers, no namespaces, or nothing."""

    ENFORCING = "enforcing"
    DEGRADED = "degraded"
    OFF = "off"


class Outcome(enum.StrEnum):
    """What became of a fire: a workflow, which may wait for another of its key, or none, for a reason."""

    STARTED = "started"
    QUEUED = "queued"
    SKIPPED = "skipped"
    REFUSED = "refused"
    MISSED = "missed"


class CatchUp(enum.StrEnum):
    """What becomes of the fires that fell due while no daemon was up: nothing, or one for all of them."""

    NONE = "none"
    ONCE = "once"


_S = StepState
# A step leaves `succeeded` only when a person retries from it or from an earlier one.
MOVES: dict[StepState, frozenset[StepState]] = {
    _S.BLOCKED: frozenset({_S.READY, _S.CANCELLED}),
    _S.READY: frozenset({_S.RUNNING, _S.WAITING, _S.SUCCEEDED, _S.FAILED, _S.CANCELLED, _S.BLOCKED}),
    _S.WAITING: frozenset({_S.READY, _S.FAILED, _S.CANCELLED}),
    _S.RUNNING: frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELLED, _S.READY, _S.WAITING}),
    _S.SUCCEEDED: frozenset({_S.BLOCKED, _S.READY}),
    _S.FAILED: frozenset({_S.READY, _S.BLOCKED}),
    _S.CANCELLED: frozenset({_S.READY, _S.BLOCKED}),
}
ENDED = frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELLED})


class Workspace(msgspec.Struct, frozen=True, kw_only=True):
    """A registered root module; `directory` and `root` are absolute paths, `root` contains it and is staged."""

    name: str
    directory: str
    root: str
    engine: str | None = None  # "tofu", "terraform", or None: look one up
    var_files: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    egress: tuple[int, ...] = ()  # TCP ports that its engine may connect to, beside 443
    created_at: float = 0.0


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person asked of one workflow, beyond workspace and playbook."""

    ssh_wait_s: float = 300.0
    onboard_playbook: str | None = None
    limit: str | None = None
    tags: str | None = None
    skip_tags: str | None = None
    check: bool = False
    diff: bool = False
    extra_vars: dict[str, Any] | None = None
    ssh_identities: tuple[str, ...] = ()
    egress: tuple[int, ...] = ()  # TCP ports that its plays may connect to, beside 22
    fleet_key: str | None = None  # of a rotation: the fingerprint of the key that it leads to
    require_approval: bool = False  # a person decides on the plan before it is applied
    allow_destroy: bool = False  # a plan that destroys needs no decision


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """A list of steps; `kind` names the chain, times are Unix seconds.

    `inventory` is what its plays run over. Of the running workflows with one `key` only the oldest has begun.
    `origin` is `schedule:<name>` or `rule:<name>` when no person started it, `requester` the person as the daemon
    knew them.
    """

    id: str
    kind: str
    workspace: str | None
    playbook: str | None
    options: RunOptions
    state: RunState
    created_at: float
    inventory: str | None = None
    key: str | None = None
    origin: str = ""
    requester: str = ""
    ended_at: float | None = None
    reason: str = ""
    hint: str = ""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule or a rule starts: a play over the inventory `target`, or an apply or plan of that workspace."""

    kind: Literal["play", "apply", "plan"]
    target: str
    playbook: str | None = None
    options: RunOptions = RunOptions()
    key: str | None = None  # one workflow of this key runs, one waits


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Starts `work` at each time of `cron`, six fields, in the IANA zone `zone`.

    `next_at` is the first time that no fire answers for yet, None when it is paused; `planned_at` when that was
    reckoned. All in Unix seconds.
    """

    name: str
    cron: str
    zone: str = "UTC"
    catch_up: CatchUp = CatchUp.NONE
    work: Work
    paused: bool = False
    created_at: float = 0.0
    next_at: float | None = None
    planned_at: float = 0.0


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Starts `work` once for each event of the kind `on` whose fields fit `match`: field → text, `*` and `?` allowed.

    Events numbered up to `since` are from before its time.
    """

    name: str
    on: str
    match: dict[str, str] = {}
    work: Work
    enabled: bool = True
    created_at: float = 0.0
    since: int = 0


class Fire(msgspec.Struct, frozen=True, kw_only=True):
    """One time at which a schedule or a rule was to start something, and what became of it.

    `due_at` is the time of the schedule, `event` the number of the event that a rule answered; both None by hand.
    """

    source: Literal["schedule", "rule"]
    name: str
    at: float
    outcome: Outcome
    due_at: float | None = None
    event: int | None = None
    workflow: str | None = None
    reason: str = ""
    hint: str = ""


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the ledger; `stage` is the row it is shown in."""

    workflow: str
    position: int
    name: str
    stage: str
    state: StepState
    job: str | None = None
    started_at: float | None = None
    ended_at: float | None = None
    reason: str = ""
    hint: str = ""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """One output value of a workspace, as `output -json` has it."""

    value: Any
    sensitive: bool = False


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A host as ansible would dial it; `connection` is ansible's plugin name, without collection prefix."""

    name: str
    address: str
    port: int = 22
    user: str | None = None
    connection: str = "ssh"
    proxy: str | None = None  # the ProxyJump/ProxyCommand option as given, when there is one
    identity_file: str | None = None
    declared_keys: tuple[str, ...] = ()  # exocomp_host_keys: "type base64" lines

    @property
    def over_ssh(self) -> bool:
        return self.connection in ("ssh", "smart", "paramiko", "paramiko_ssh")


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One content of a standing inventory; `path` is an immutable 0600 file, `digest` its sha256 in hex."""

    inventory: str
    number: int
    path: str
    digest: str
    hosts: tuple[Host, ...]
    created_at: float
    workflow: str | None = None


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded host key; `name` is the known_hosts name (bare for 22, `[host]:port` otherwise)."""

    name: str
    key_type: str
    key: str  # base64 blob
    trust: Trust
    pinned_at: float
    fingerprint: str  # "SHA256:…", as ssh-keygen -l prints it
    workflow: str | None = None


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """What exit.json says; a negative code is a signal, `command` the last command that ran."""

    code: int
    command: str
    cancelled: bool = False
    timed_out: bool = False
    ended_at: float = 0.0


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's judgement of an ended attempt: `reason` is one sentence, `hint` the next step for a person."""

    ok: bool
    reason: str = ""
    hint: str = ""
