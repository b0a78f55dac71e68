"""Decisions on plans: a step asks, a person answers once, and what can't be answered any more is void."""

from __future__ import annotations

from pathlib import Path

from exocomp.approval import Approval, ApprovalState
from exocomp.errors import Conflict, NotAllowed
from exocomp.model import StepRow, Workflow
from exocomp.protocol.commands import Done
from exocomp.protocol.mail import Decide, Report
from exocomp.store import approvals
from exocomp.store.store import Store


class Deciding:
    """A question stands for `expires_s` seconds; `apart`: who asked for a workflow does not decide on it."""

    def __init__(self, store: Store, *, expires_s: float, apart: bool) -> None:
        self._store = store
        self._expires_s = expires_s
        self._apart = apart

    def ask(self, step: StepRow, workflow: Workflow, report: Report) -> None:
        assert report.proposal is not None
        approval = approvals.of_proposal(
            workflow, step.name, report.proposal, now=self._store.now(), expires_s=self._expires_s
        )
        approvals.ask(self._store, step, report, approval)

    def decide(self, mail: Decide) -> Done:
        """Raises Conflict when it was decided before or is void, NotAllowed when the caller may not."""
        approval = approvals.get(self._store, mail.approval)
        if approval.state is not ApprovalState.OPEN:
            raise approvals.decided(approval)
        if self._apart and mail.by == approval.requester:
            raise NotAllowed(
                f"{mail.by} asked for {approval.workflow}, so somebody else decides on {approval.id}",
                hint="see the setting approver_is_not_requester",
            )
        if self._store.now() >= approval.expires_at:
            raise self._void(approval, "nobody decided in time")
        changed = [path for path, digest in approval.proposal.projects.items() if mail.projects.get(path) != digest]
        if mail.approve and changed:
            raise self._void(approval, f"the project of {changed[0]} changed since it was asked")
        approvals.decide(self._store, approval, approve=mail.approve, by=mail.by, reason=mail.reason)
        if mail.approve:
            return Done(message=f"{approval.id} approved: {approval.workflow} applies exactly that plan")
        _drop(approval)
        return Done(message=f"{approval.id} rejected: {approval.workflow} is cancelled")

    def expire(self) -> None:
        for approval in approvals.expired(self._store):
            self._void(approval, "nobody decided in time")

    def _void(self, approval: Approval, reason: str) -> Conflict:
        approvals.void(self._store, approval, reason)
        _drop(approval)
        return approvals.decided(approvals.get(self._store, approval.id))


def _drop(approval: Approval) -> None:
    Path(approval.proposal.plan.path).unlink(missing_ok=True)
