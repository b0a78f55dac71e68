"""Step 3, second half: the seeded onboarding play pushes the fleet's public key to every pinned host."""

from __future__ import annotations

from exocomp.protocol.jobs import PlayJob
from exocomp.protocol.mail import Report
from exocomp.workflows import base


class Onboard(base.Step, frozen=True, kw_only=True):
    name: str = "onboard"
    stage: str = "onboard"

    def key(self, run: base.Run) -> str | None:
        return f"hosts:{run.inventory}"

    def order(self, run: base.Run) -> PlayJob | base.Nothing:
        generation = run.hosts_of()
        if not any(host.over_ssh for host in generation.hosts):
            return base.Nothing(reason="no host is reached over SSH")
        run.reach(generation.hosts)
        skipped = [host.name for host in generation.hosts if not host.over_ssh]
        options = run.workflow.options
        playbook = run.onboarding
        return PlayJob(
            playbook=playbook,
            generation=generation,
            onboarding=True,
            facts=run.workflow.id,
            limit=":".join(["all", *(f"!{name}" for name in skipped)]) if skipped else None,
            ssh_identities=options.ssh_identities,
            egress=options.egress,
            approved=run.project_of(playbook),
        )

    def settle(self, run: base.Run, report: Report) -> base.Verdict:
        verdict = super().settle(run, report)
        if not isinstance(verdict, base.Done):
            return verdict
        reached = {host.host for host in report.hosts}
        missed = [host.name for host in run.hosts_of().hosts if host.over_ssh and host.name not in reached]
        if missed:
            return base.Fail(
                reason=f"the play of step {self.name} did not reach {len(missed)} host(s): {', '.join(missed[:10])}",
                hint="its plays must match every host of the inventory (`hosts: all`)",
            )
        return verdict
