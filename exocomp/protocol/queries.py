"""Queries and their answers: read-only, answered by the daemon or, when it is down, from the store itself."""

from __future__ import annotations

import msgspec

from exocomp.model import AttemptState, Generation, Pin, StepRow, Tier, Workflow, Workspace
from exocomp.protocol.approving import Approvals, ApprovalView, ListApprovals, ShowApproval
from exocomp.protocol.converging import (
    Fires,
    Hosts,
    ListFires,
    ListHosts,
    ListRules,
    ListSchedules,
    Rules,
    RuleView,
    Schedules,
    ScheduleView,
    ShowHost,
    ShowRule,
    ShowSchedule,
    Whole,
)
from exocomp.protocol.events import Recorded
from exocomp.protocol.jobs import Job


class ListWorkspaces(msgspec.Struct, frozen=True, kw_only=True, tag="list_workspaces"):
    pass


class ShowWorkspace(msgspec.Struct, frozen=True, kw_only=True, tag="show_workspace"):
    name: str


class ListWorkflows(msgspec.Struct, frozen=True, kw_only=True, tag="list_workflows"):
    """Newest first; `kinds` empty means all. `origin` is `schedule:<name>` or `rule:<name>`."""

    kinds: tuple[str, ...] = ()
    workspace: str | None = None
    inventory: str | None = None
    origin: str | None = None
    limit: Whole = 50


class ShowWorkflow(msgspec.Struct, frozen=True, kw_only=True, tag="show_workflow"):
    """`id` is an id, a unique prefix or suffix of one, or "latest"."""

    id: str
    kinds: tuple[str, ...] = ()


class ListJobs(msgspec.Struct, frozen=True, kw_only=True, tag="list_jobs"):
    workflow: str | None = None
    limit: Whole = 50


class ShowJob(msgspec.Struct, frozen=True, kw_only=True, tag="show_job"):
    id: str


class ListInventories(msgspec.Struct, frozen=True, kw_only=True, tag="list_inventories"):
    pass


class ShowInventory(msgspec.Struct, frozen=True, kw_only=True, tag="show_inventory"):
    """`generation` None means the current one."""

    name: str
    generation: Whole | None = None


class ListPins(msgspec.Struct, frozen=True, kw_only=True, tag="list_pins"):
    """`host` is an inventory host name, an address or a known_hosts name."""

    host: str | None = None


class ListEvents(msgspec.Struct, frozen=True, kw_only=True, tag="list_events"):
    """Events with seq > `since`, oldest first."""

    since: Whole = 0
    since_at: float | None = None
    workflow: str | None = None
    workspace: str | None = None
    limit: Whole = 1000


class Workspaces(msgspec.Struct, frozen=True, kw_only=True, tag="workspaces"):
    workspaces: tuple[WorkspaceView, ...]


class WorkspaceView(msgspec.Struct, frozen=True, kw_only=True, tag="workspace"):
    workspace: Workspace
    hosts: int | None  # of the standing inventory; None when there is none yet
    generation: int | None
    last_apply: Workflow | None


class HostResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one host fared in one job; `outcome` is answered, silent, pinned, known, refused, ok, changed,
    failed, unreachable or skipped."""

    host: str
    outcome: str
    detail: str = ""
    ok: int = 0
    changed: int = 0
    failed: int = 0
    unreachable: int = 0


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    state: AttemptState
    started_at: float
    ended_at: float | None = None
    exit_code: int | None = None
    tier: Tier | None = None  # what stood around it; None for jobs inside the daemon
    source: str | None = None  # digest of the module or project that was staged for it
    commit: str | None = None  # the git commit it was staged at


class JobView(msgspec.Struct, frozen=True, kw_only=True, tag="job"):
    job: Job
    attempts: tuple[AttemptView, ...]
    hosts: tuple[HostResult, ...]
    directory: str  # of the latest attempt


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    step: StepRow
    attempts: int
    hosts: tuple[HostResult, ...]
    tier: Tier | None = None  # of the latest attempt


class WorkflowView(msgspec.Struct, frozen=True, kw_only=True, tag="workflow"):
    workflow: Workflow
    steps: tuple[StepView, ...]
    generation: int | None = None


class Workflows(msgspec.Struct, frozen=True, kw_only=True, tag="workflows"):
    workflows: tuple[WorkflowView, ...]


class Jobs(msgspec.Struct, frozen=True, kw_only=True, tag="jobs"):
    jobs: tuple[Job, ...]


class InventoryView(msgspec.Struct, frozen=True, kw_only=True, tag="inventory"):
    """`file` is the standing file; `sound` says whether it still is what the ledger recorded."""

    name: str
    file: str
    current: Generation
    generations: tuple[int, ...]
    sound: bool


class Inventories(msgspec.Struct, frozen=True, kw_only=True, tag="inventories"):
    inventories: tuple[InventoryView, ...]


class Pins(msgspec.Struct, frozen=True, kw_only=True, tag="pins"):
    pins: tuple[Pin, ...]


class Events(msgspec.Struct, frozen=True, kw_only=True, tag="events"):
    events: tuple[Recorded, ...]


AnyQuery = (
    ListWorkspaces
    | ShowWorkspace
    | ListWorkflows
    | ShowWorkflow
    | ListJobs
    | ShowJob
    | ListInventories
    | ShowInventory
    | ListSchedules
    | ShowSchedule
    | ListRules
    | ShowRule
    | ListFires
    | ListHosts
    | ShowHost
    | ListApprovals
    | ShowApproval
    | ListPins
    | ListEvents
)
AnyAnswer = (
    Workspaces
    | WorkspaceView
    | Workflows
    | WorkflowView
    | Jobs
    | JobView
    | Inventories
    | InventoryView
    | Schedules
    | ScheduleView
    | Rules
    | RuleView
    | Fires
    | Hosts
    | Approvals
    | ApprovalView
    | Pins
    | Events
)
