"""The question whether a plan may be applied: what it would do, and the one answer. Nouns only, no I/O."""

from __future__ import annotations

import enum
from typing import Literal

import msgspec


class Gate(enum.StrEnum):
    """When a person decides between plan and apply: never, when the plan destroys or replaces, or always."""

    NEVER = "never"
    DESTROYS = "destroys"
    ALWAYS = "always"


class ApprovalState(enum.StrEnum):
    """`void` is a question that nobody can answer any more: its plan is stale, its workflow ended, its time is up."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    VOID = "void"


class SavedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as the engine saved it; `path` is the sealed file, `digest` the sha256 in hex of what was saved."""

    path: str
    digest: str


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan does to one resource (by address) or to one output (by name)."""

    name: str
    action: Literal["create", "update", "replace", "delete", "forget", "import", "move"]

    @property
    def destroys(self) -> bool:
        return self.action in ("replace", "delete")


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What applying a saved plan would do.

    `joins` and `leaves` are hosts of the standing inventory, as far as the plan knows them; `hosts_known` is False
    when it does not. `projects` are playbook → digest of its project, for the plays that follow the apply.
    """

    plan: SavedPlan
    changes: tuple[Change, ...]
    outputs: tuple[Change, ...] = ()
    joins: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    hosts_known: bool = True
    projects: dict[str, str] = {}

    @property
    def destroys(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.destroys)

    def count(self) -> str:
        """ "2 to add, 1 to replace", in the order of weight."""
        words = (
            *(("create", "to add"), ("import", "to import"), ("update", "to change"), ("move", "to move")),
            *(("replace", "to replace"), ("delete", "to destroy"), ("forget", "to forget")),
        )
        actions = [change.action for change in self.changes]
        told = [f"{actions.count(action)} {word}" for action, word in words if action in actions]
        return ", ".join(told) or "no change of a resource"


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """The question of one step of one workflow; `digest` is over all that is asked, times are Unix seconds.

    `requester` and `decided_by` are who they were to the daemon; `job` is the one that applied the plan.
    """

    id: str
    workflow: str
    workspace: str
    step: str
    proposal: Proposal
    digest: str
    state: ApprovalState
    asked_at: float
    expires_at: float
    requester: str = ""
    decided_at: float | None = None
    decided_by: str = ""
    reason: str = ""
    job: str | None = None
