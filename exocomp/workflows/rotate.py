"""The rotation of the fleet key over one workspace: the new key is pushed as in onboarding, then the old one goes."""

from __future__ import annotations

import msgspec

from exocomp.errors import WrongUsage
from exocomp.protocol.jobs import PlayJob
from exocomp.workflows import base
from exocomp.workflows.onboard import Onboard


class Push(Onboard, frozen=True, kw_only=True):
    """An onboarding gets the pending key while there is one."""

    name: str = "push"
    stage: str = "push"


class Retire(Onboard, frozen=True, kw_only=True):
    """Its login with nothing but the new key proves that the old one can go."""

    name: str = "retire"
    stage: str = "retire"

    def order(self, run: base.Run) -> PlayJob | base.Nothing:
        if run.workflow.options.fleet_key is None:
            raise WrongUsage("it is not said which fleet key the hosts shall have", hint="exocomp fleet-key rotate")
        job = super().order(run)
        if isinstance(job, base.Nothing):
            return job
        return msgspec.structs.replace(
            job,
            playbook=f"{run.runbooks}/retire.yml",
            onboarding=False,
            retiring=run.workflow.options.fleet_key,
            ssh_identities=(),
        )
