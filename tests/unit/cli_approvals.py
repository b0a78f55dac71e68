"""An approval as the tests of the command line seed it."""

from __future__ import annotations

from typing import Any

import cli_views as v

from exocomp.approval import Approval, ApprovalState, Change, Proposal, SavedPlan

ID = "ap_06f2"


def approval(**more: Any) -> Approval:
    proposal = Proposal(
        plan=SavedPlan(path="/p", digest="d" * 64),
        changes=(Change(name="r.new", action="create"), Change(name="r.old\x1b[31m", action="delete")),
        outputs=(Change(name="ansible_inventory", action="update"),),
        joins=("web2",),
        leaves=("web1",),
        projects={"/srv/site.yml": "e" * 64},
    )
    fields: dict[str, Any] = {
        "id": ID,
        "workflow": v.WF,
        "workspace": "edge",
        "step": "apply",
        "proposal": proposal,
        "digest": "f" * 64,
        "state": ApprovalState.OPEN,
        "asked_at": v.AT,
        "expires_at": v.AT + 3600,
        "requester": "ada",
    }
    return Approval(**(fields | more))
