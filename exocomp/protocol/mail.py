"""Mail between actors inside the daemon."""

from __future__ import annotations

import msgspec

from exocomp.approval import Proposal
from exocomp.model import Host, Pin, Work
from exocomp.protocol.commands import StartWorkflow
from exocomp.protocol.jobs import Job
from exocomp.protocol.queries import HostResult


class RunJob(msgspec.Struct, frozen=True, kw_only=True):
    """Run attempt `attempt` of `job`; with `adopt`, take over one that an earlier daemon started."""

    job: Job
    attempt: int
    adopt: bool = False


class StopJob(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel the job: SIGINT with grace, or stop probing."""

    job: str


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """A new content for a standing inventory, its immutable file already on disk; `outputs` counts all outputs.

    `moved` tells that the state of the workspace is not what it was before the apply.
    """

    inventory: str
    path: str
    digest: str
    hosts: tuple[Host, ...]
    outputs: int
    moved: bool = True


class Begin(msgspec.Struct, frozen=True, kw_only=True):
    """An order of a person, known to the daemon as `by`."""

    order: StartWorkflow
    by: str = ""


class TakeInventory(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the operator's, checked and written as a generation; `told` is what there is to say of it."""

    captured: Captured
    told: str = ""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why something was refused at the door."""

    what: str
    hint: str = ""


class FireSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule is due: `planned_for` is what the ledger says, `due_at` the time to answer for, `next_at` the next.

    `missed` says why it does not fire for times that passed; by hand, all three times are None.
    """

    name: str
    planned_for: float | None = None
    due_at: float | None = None
    next_at: float | None = None
    missed: str = ""
    refused: Refusal | None = None


class Decide(msgspec.Struct, frozen=True, kw_only=True):
    """A person's decision; `projects` are the digests of the approval's projects as they are now."""

    approval: str
    approve: bool
    projects: dict[str, str]
    by: str = ""
    reason: str = ""


class ExpireApprovals(msgspec.Struct, frozen=True, kw_only=True):
    """Void those whose time is up."""


class ReplanSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """The clock was set back: the next time is another."""

    name: str
    planned_for: float | None
    next_at: float | None


class FireRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule fits the event numbered `event`; `work` is what it starts for it."""

    name: str
    event: int
    cause: str | None  # the event's workflow
    work: Work
    refused: Refusal | None = None


class SchedulesChanged(msgspec.Struct, frozen=True, kw_only=True):
    """Look them up again."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended.

    `outcome` is succeeded, failed, cancelled or lost; `source` (digest) and `commit` name what was staged.
    `pins` are to be recorded with the success; `refused` are (host, known_hosts name, recorded, offered) of hosts
    whose keys were refused. With a `proposal` a tofu job has planned, applied nothing, and asks.
    """

    job: str
    attempt: int
    outcome: str
    reason: str = ""
    hint: str = ""
    exit_code: int | None = None
    source: str | None = None
    commit: str | None = None
    hosts: tuple[HostResult, ...] = ()
    captured: Captured | None = None
    proposal: Proposal | None = None
    pins: tuple[Pin, ...] = ()
    refused: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = ()


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A host that the prober found answering while its job still waits for others."""

    job: str
    host: Host
    after_s: float
    banner: str


class RunnerRestarted(msgspec.Struct, frozen=True, kw_only=True):
    """The actor that runs jobs of these kinds started anew: what it was running has to be taken up again."""

    kinds: tuple[str, ...]


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """Release nothing more; answered with the number of attempts that are still running."""
