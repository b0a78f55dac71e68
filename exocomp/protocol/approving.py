"""Deciding on plans: commands, queries, answers and events."""

from __future__ import annotations

import msgspec

from exocomp.approval import Approval, ApprovalState
from exocomp.protocol.converging import Whole
from exocomp.protocol.event import Event


class DecideApproval(msgspec.Struct, frozen=True, kw_only=True, tag="decide_approval"):
    """The first decision stands. An approval whose plan or projects are not what was asked is void instead."""

    id: str
    approve: bool
    reason: str = ""


class ListApprovals(msgspec.Struct, frozen=True, kw_only=True, tag="list_approvals"):
    """Newest first; `state` None means all."""

    state: ApprovalState | None = None
    workflow: str | None = None
    limit: Whole = 50


class ShowApproval(msgspec.Struct, frozen=True, kw_only=True, tag="show_approval"):
    """`id` is an id, or a unique prefix or suffix of one."""

    id: str


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True, tag="approval"):
    approval: Approval


class Approvals(msgspec.Struct, frozen=True, kw_only=True, tag="approvals"):
    approvals: tuple[Approval, ...]


class ApprovalAsked(Event, frozen=True, kw_only=True, tag="approval_asked"):
    """A step waits for a decision on its plan."""

    approval: str
    step: str
    summary: str
    destroys: tuple[str, ...] = ()
    expires_at: float


class ApprovalDecided(Event, frozen=True, kw_only=True, tag="approval_decided"):
    approval: str
    approved: bool
    by: str = ""
    reason: str = ""


class ApprovalVoided(Event, frozen=True, kw_only=True, tag="approval_voided"):
    """Nobody can decide it any more."""

    approval: str
    reason: str
