"""Step 2: the bounded wait for SSH on every host of the inventory that is reached over SSH."""

from __future__ import annotations

from exocomp.errors import ExocompError
from exocomp.protocol.jobs import ProbeJob
from exocomp.workflows import base


class Wait(base.Step, frozen=True, kw_only=True):
    name: str = "wait"
    stage: str = "wait"

    def order(self, run: base.Run) -> ProbeJob | base.Nothing:
        hosts = tuple(host for host in run.hosts_of().hosts if host.over_ssh)
        if proxied := [host for host in hosts if host.proxy]:
            first = proxied[0]
            raise ExocompError(
                f"{len(proxied)} host(s) are reached through a jump host, which the wait and the host-key scan "
                f"can't pass: {first.name} ({first.proxy})",
                hint="give the hosts an address that the control host reaches, or onboard them by a play of your own",
            )
        run.reach(hosts)
        if not hosts:
            return base.Nothing(reason="no host is reached over SSH")
        return ProbeJob(hosts=hosts, timeout_s=run.workflow.options.ssh_wait_s)
