"""Step 4: the user's play over the standing inventory; alone, it is the workflow `play`."""

from __future__ import annotations

from exocomp.errors import WrongUsage
from exocomp.protocol.jobs import PlayJob
from exocomp.workflows import base


class Configure(base.Step, frozen=True, kw_only=True):
    name: str = "configure"
    stage: str = "configure"

    def key(self, run: base.Run) -> str | None:
        return f"hosts:{run.inventory}"

    def order(self, run: base.Run) -> PlayJob:
        options = run.workflow.options
        if run.workflow.playbook is None:
            raise WrongUsage("no playbook was named", hint="exocomp provision run <workspace> <playbook>")
        generation = run.hosts_of()
        run.reach(generation.hosts)
        return PlayJob(
            playbook=run.workflow.playbook,
            generation=generation,
            facts=run.workflow.id,
            limit=options.limit,
            tags=options.tags,
            skip_tags=options.skip_tags,
            check=options.check,
            diff=options.diff,
            extra_vars=options.extra_vars,
            ssh_identities=options.ssh_identities,
            egress=options.egress,
            approved=run.project_of(run.workflow.playbook),
        )


class Play(Configure, frozen=True, kw_only=True):
    name: str = "play"
    stage: str = "play"
