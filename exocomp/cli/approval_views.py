"""Approvals as text: the question that a person decides on, and rows of them; pure."""

from __future__ import annotations

from collections.abc import Sequence

from exocomp.approval import Approval, ApprovalState, Change
from exocomp.cli.render import clean, duration, facts, moment, paint, table

MARKS = {
    "create": ("+", "green"),
    "import": ("<", "green"),
    "update": ("~", "yellow"),
    "move": (">", "yellow"),
    "replace": ("-/+", "red"),
    "delete": ("-", "red"),
    "forget": ("x", "red"),
}
COLORS = {
    ApprovalState.OPEN: "yellow",
    ApprovalState.APPROVED: "green",
    ApprovalState.REJECTED: "red",
    ApprovalState.VOID: "dim",
}
SHOWN = 100  # changes; all of them are in --json


def question(approval: Approval, *, now: float, color: bool) -> str:
    """What is asked and, while it is open, how to decide."""
    asked = approval.proposal
    out = [
        f"{approval.id}  {paint(approval.state, COLORS[approval.state], color)}",
        facts(
            [
                ("workflow", f"{approval.workflow} step {approval.step} of workspace {approval.workspace}"),
                ("asked", f"{moment(approval.asked_at)}{f' for {approval.requester}' if approval.requester else ''}"),
                ("expires", _expires(approval, now)),
                ("decided", _decided(approval)),
                ("plan", f"{asked.count()}  sha256 {asked.plan.digest[:16]}"),
                *(("then runs", f"{path}  project {digest[:16]}") for path, digest in asked.projects.items()),
            ]
        ),
    ]
    # What is lost for good stands first.
    changes = sorted(asked.changes, key=lambda change: not change.destroys)
    out += _part("resources", changes, color) + _part("outputs", asked.outputs, color) + _hosts(approval, color)
    if approval.state is ApprovalState.OPEN:
        out += ["", f"decide: exocomp approval decide {approval.id} --approve   (or --reject --reason WHY)"]
    return "\n".join(out)


def _expires(approval: Approval, now: float) -> str:
    if approval.state is not ApprovalState.OPEN:
        return ""
    return f"{moment(approval.expires_at)}, in {duration(approval.expires_at - now)}"


def _decided(approval: Approval) -> str:
    if approval.decided_at is None:
        return ""
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    return f"{moment(approval.decided_at)}{by}{f': {approval.reason}' if approval.reason else ''}"


def _part(title: str, changes: Sequence[Change], color: bool) -> list[str]:
    if not changes:
        return []
    out = ["", f"{title}:"]
    for change in changes[:SHOWN]:
        mark, paints = MARKS[change.action]
        out.append(f"  {paint(mark.rjust(3), paints, color)} {clean(change.name)}  {change.action}")
    return out + ([f"      and {len(changes) - SHOWN} more: see --json"] if len(changes) > SHOWN else [])


def _hosts(approval: Approval, color: bool) -> list[str]:
    asked = approval.proposal
    changes = [(name, "+", "green") for name in asked.joins] + [(name, "-", "red") for name in asked.leaves]
    out = [f"  {paint(mark.rjust(3), paints, color)} {clean(name)}" for name, mark, paints in changes[:SHOWN]]
    if len(changes) > SHOWN:
        out.append(f"      and {len(changes) - SHOWN} more: see --json")
    if not asked.hosts_known:
        out.append("    the plan does not know all of them before the apply")
    return ["", f"hosts of tf:{approval.workspace}:", *out] if out else []


def rows(approvals: Sequence[Approval], *, now: float, width: int | None, color: bool) -> str:
    body = [
        (
            each.id,
            each.state,
            each.workspace,
            each.proposal.count(),
            each.workflow,
            each.requester,
            duration(now - each.asked_at),
        )
        for each in approvals
    ]
    head = ("ID", "STATE", "WORKSPACE", "PLAN", "WORKFLOW", "FOR", "AGE")
    return table(head, body, width=width, color=color, coloring=lambda state: COLORS[ApprovalState(state)])
