"""What a step is: pure; facts in, job out; report in, verdict out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from exocomp.approval import Approval
from exocomp.errors import ExocompError, NotFound
from exocomp.model import Generation, Host, Workflow, Workspace
from exocomp.protocol.jobs import JobSpec
from exocomp.protocol.mail import Report

SSH_PORT = 22


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a step may look at."""

    workflow: Workflow
    workspace: Workspace | None = None
    generation: Generation | None = None
    runbooks: str = ""  # directory of the seeded ones
    data_dir: str = ""
    jailed: bool = True
    approved: Approval | None = None  # the latest, whether its plan was applied or not

    @property
    def inventory(self) -> str:
        return self.workflow.inventory or ""

    @property
    def onboarding(self) -> str:
        """The playbook that onboards."""
        return self.workflow.options.onboard_playbook or f"{self.runbooks}/onboard.yml"

    def project_of(self, playbook: str) -> str | None:
        """The digest that its project must have, when a person approved it."""
        return self.approved.proposal.projects.get(playbook) if self.approved else None

    def hosts_of(self) -> Generation:
        """The generation that the run works on; raises NotFound when there is none or it names no host."""
        if self.generation is None:
            raise NotFound(
                f"inventory {self.inventory} was never materialized",
                hint=f"apply the workspace first: exocomp workspace apply {self.workflow.workspace}",
            )
        if not self.generation.hosts:
            raise NotFound(
                f"inventory {self.inventory} names no hosts, so nothing is run",
                hint="declare an `ansible_inventory` output in the module",
            )
        return self.generation

    def reach(self, hosts: Iterable[Host]) -> None:
        """No late surprise: raises ExocompError naming the first host that the plays of this run may not reach.

        Inside the jail a play has TCP 22 and each `--egress`, and of the disk outside the data dir only each
        `--ssh-identity`.
        """
        options = self.workflow.options
        for host in hosts if self.jailed else ():
            if not host.over_ssh:
                continue
            if host.port != SSH_PORT and host.port not in options.egress:
                raise ExocompError(
                    f"{host.name} answers SSH on port {host.port}, which the jobs of this run may not connect to",
                    hint=f"run it with --egress {host.port}",
                )
            key = host.identity_file
            if key is None or key in options.ssh_identities or key.startswith(f"{self.data_dir}/"):
                continue
            if key.startswith(("/", "~")):
                raise ExocompError(
                    f"the inventory names key file {key} for {host.name}, which the jobs of this run may not read",
                    hint=f"run it with --ssh-identity {key}" + (" (as an absolute path)" if key[0] == "~" else ""),
                )


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """`attempts` bounds how often a lost job is run again."""

    attempts: int = 3


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """An order for nothing: the step succeeds at once, for this reason."""

    reason: str


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The step succeeded."""


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt was lost: run the job again."""

    reason: str


class Fail(msgspec.Struct, frozen=True, kw_only=True):
    """The step failed, and with it the workflow."""

    reason: str
    hint: str = ""


Verdict = Done | Again | Fail


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a chain; `stage` is the row it is shown in.

    `interrupted` says what a lost attempt means: run the job again as it was, or look at the world anew first.
    """

    name: str
    stage: str
    limits: Limits = Limits()
    interrupted: Literal["rerun", "reconcile"] = "rerun"

    def key(self, run: Run) -> str | None:
        """The concurrency key its job holds while it runs."""
        return None

    def order(self, run: Run) -> JobSpec | Nothing:
        """The job to run; raises ExocompError to refuse the step before anything runs."""
        raise NotImplementedError

    def settle(self, run: Run, report: Report) -> Verdict:
        """What the end of an attempt means."""
        match report.outcome:
            case "succeeded":
                return Done()
            case "lost" if report.attempt < self.limits.attempts:
                return Again(reason=report.reason)
            case "lost":
                return Fail(
                    reason=f"lost {report.attempt} times: {report.reason}",
                    hint="look for what kills processes on this machine (memory?) before you retry",
                )
        return Fail(reason=report.reason, hint=report.hint)
