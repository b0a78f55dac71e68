"""The steps that run the engine over a workspace: plan, apply, destroy."""

from __future__ import annotations

from typing import Literal

from exocomp.errors import WrongUsage
from exocomp.protocol.jobs import TofuJob, Verb
from exocomp.workflows import base


class Tofu(base.Step, frozen=True, kw_only=True):
    """Named after its verb. An interrupted one plans anew: the saved plan of a lost attempt is never applied."""

    verb: Verb
    interrupted: Literal["rerun", "reconcile"] = "reconcile"

    def key(self, run: base.Run) -> str | None:
        return f"workspace:{run.workflow.workspace}"

    def order(self, run: base.Run) -> TofuJob:
        if run.workspace is None:
            raise WrongUsage("no workspace was named", hint="exocomp workspace list")
        return TofuJob(verb=self.verb, workspace=run.workspace)


def tofu(verb: Verb) -> Tofu:
    return Tofu(name=verb.value, stage=verb.value, verb=verb)
