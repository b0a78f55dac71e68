"""Events (past tense): what happened, written in the transaction that made it so; never secrets or tool output."""

from __future__ import annotations

import msgspec

from exocomp.model import RunState, StepState, Tier, Trust
from exocomp.protocol.approving import ApprovalAsked, ApprovalDecided, ApprovalVoided
from exocomp.protocol.event import Event
from exocomp.protocol.fired import (
    RuleAdded,
    RuleDisabled,
    RuleEnabled,
    RuleFired,
    RuleRefused,
    RuleRemoved,
    RuleSkipped,
    ScheduleAdded,
    ScheduleFired,
    SchedulePaused,
    ScheduleRefused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleSkipped,
)


class DaemonStarted(Event, frozen=True, kw_only=True, tag="daemon_started"):
    version: str
    running: int = 0  # jobs that an earlier daemon left running
    sandbox: Tier = Tier.ENFORCING  # what the settings ask for
    achievable: Tier = Tier.ENFORCING  # what the probes found this machine able to do
    missing: tuple[str, ...] = ()  # "layer: reason; cure"


class DaemonStopped(Event, frozen=True, kw_only=True, tag="daemon_stopped"):
    running: int = 0  # attempts whose shims live on


class WorkspaceAdded(Event, frozen=True, kw_only=True, tag="workspace_added"):
    directory: str


class WorkspaceRemoved(Event, frozen=True, kw_only=True, tag="workspace_removed"):
    pass


class WorkflowStarted(Event, frozen=True, kw_only=True, tag="workflow_started"):
    kind: str
    steps: tuple[str, ...]
    playbook: str | None = None
    inventory: str | None = None
    origin: str = ""  # schedule:<name> or rule:<name>


class WorkflowEnded(Event, frozen=True, kw_only=True, tag="workflow_ended"):
    state: RunState
    reason: str = ""
    hint: str = ""


class WorkflowRetried(Event, frozen=True, kw_only=True, tag="workflow_retried"):
    from_step: str


class CancelRequested(Event, frozen=True, kw_only=True, tag="cancel_requested"):
    pass


class StepMoved(Event, frozen=True, kw_only=True, tag="step_moved"):
    step: str
    stage: str
    old: StepState
    new: StepState
    job: str | None = None
    attempt: int | None = None
    reason: str = ""
    hint: str = ""


class StepQueued(Event, frozen=True, kw_only=True, tag="step_queued"):
    """A ready step waits for another job with the same concurrency key."""

    step: str
    behind: str


class AttemptAdopted(Event, frozen=True, kw_only=True, tag="attempt_adopted"):
    step: str
    job: str
    attempt: int


class AttemptLost(Event, frozen=True, kw_only=True, tag="attempt_lost"):
    step: str
    job: str
    attempt: int
    reason: str = ""


class HostAnswered(Event, frozen=True, kw_only=True, tag="host_answered"):
    host: str
    address: str
    port: int
    after_s: float
    banner: str = ""


class HostPinned(Event, frozen=True, kw_only=True, tag="host_pinned"):
    name: str
    key_type: str
    fingerprint: str
    trust: Trust


class HostKeyRefused(Event, frozen=True, kw_only=True, tag="host_key_refused"):
    host: str
    name: str
    recorded: tuple[str, ...]  # "type SHA256:…"
    offered: tuple[str, ...]


class PinForgotten(Event, frozen=True, kw_only=True, tag="pin_forgotten"):
    name: str


class FleetKeyRotated(Event, frozen=True, kw_only=True, tag="fleet_key_rotated"):
    """Every host took the new key and gave up the old one; both are "SHA256:…"."""

    fingerprint: str
    replaced: str


class OutputsCaptured(Event, frozen=True, kw_only=True, tag="outputs_captured"):
    """`message` is the sentence of the mission: captured N output(s) to inventory … naming M host(s)."""

    inventory: str
    generation: int
    path: str
    outputs: int
    hosts: int
    message: str
    changed: bool = True
    verb: str = "apply"  # or destroy


class HostJoined(Event, frozen=True, kw_only=True, tag="host_joined"):
    inventory: str
    host: str


class HostLeft(Event, frozen=True, kw_only=True, tag="host_left"):
    inventory: str
    host: str


class InventoryAdded(Event, frozen=True, kw_only=True, tag="inventory_added"):
    """A file of the operator's became a generation; `changed` is false when it was the current one already."""

    inventory: str
    generation: int
    hosts: int
    changed: bool = True


class InventoryRemoved(Event, frozen=True, kw_only=True, tag="inventory_removed"):
    inventory: str


class ContentVendored(Event, frozen=True, kw_only=True, tag="content_vendored"):
    """Collections and roles took the place of those before; `entries` are "name version", `digest` their lock's."""

    requirements: str
    entries: tuple[str, ...]
    digest: str


AnyEvent = (
    DaemonStarted
    | DaemonStopped
    | WorkspaceAdded
    | WorkspaceRemoved
    | WorkflowStarted
    | WorkflowEnded
    | WorkflowRetried
    | CancelRequested
    | StepMoved
    | StepQueued
    | AttemptAdopted
    | AttemptLost
    | HostAnswered
    | HostPinned
    | HostKeyRefused
    | PinForgotten
    | FleetKeyRotated
    | OutputsCaptured
    | HostJoined
    | HostLeft
    | InventoryAdded
    | InventoryRemoved
    | ScheduleAdded
    | ScheduleRemoved
    | SchedulePaused
    | ScheduleResumed
    | ScheduleFired
    | ScheduleSkipped
    | ScheduleRefused
    | RuleAdded
    | RuleRemoved
    | RuleEnabled
    | RuleDisabled
    | RuleFired
    | RuleSkipped
    | RuleRefused
    | ApprovalAsked
    | ApprovalDecided
    | ApprovalVoided
    | ContentVendored
)


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its place in the one global sequence; `at` is Unix seconds."""

    seq: int
    at: float
    event: AnyEvent
