"""The steps that run the engine over a workspace: plan, apply, destroy."""

from __future__ import annotations

from typing import Literal

from exocomp.approval import Gate
from exocomp.errors import WrongUsage
from exocomp.model import Workflow
from exocomp.protocol.jobs import TofuJob, Verb
from exocomp.workflows import base


class Tofu(base.Step, frozen=True, kw_only=True):
    """Named after its verb. An interrupted one plans anew: a plan that was begun to be applied never is again."""

    verb: Verb
    interrupted: Literal["rerun", "reconcile"] = "reconcile"

    def key(self, run: base.Run) -> str | None:
        return f"workspace:{run.workflow.workspace}"

    def order(self, run: base.Run) -> TofuJob:
        if run.workspace is None:
            raise WrongUsage("no workspace was named", hint="exocomp workspace list")
        if run.approved is not None and run.approved.job is None:
            return TofuJob(verb=self.verb, workspace=run.workspace, saved=run.approved.proposal.plan)
        workflow = run.workflow
        plays = (run.onboarding if workflow.kind == "provision" else None, workflow.playbook)
        return TofuJob(
            verb=self.verb,
            workspace=run.workspace,
            gate=gate(workflow),
            followed_by=tuple(playbook for playbook in plays if playbook is not None),
        )


def gate(workflow: Workflow) -> Gate:
    """A bare apply that destroys or replaces always asks, unless a person said beforehand that it may."""
    if workflow.options.require_approval:
        return Gate.ALWAYS
    return Gate.DESTROYS if workflow.kind == "apply" and not workflow.options.allow_destroy else Gate.NEVER


def tofu(verb: Verb) -> Tofu:
    return Tofu(name=verb.value, stage=verb.value, verb=verb)
