"""Step 3, first half: every host's key is recorded before anything is pushed."""

from __future__ import annotations

from exocomp.protocol.jobs import ScanJob
from exocomp.workflows import base


class Pin(base.Step, frozen=True, kw_only=True):
    """A changed key is Fail, never Again."""

    name: str = "pin"
    stage: str = "onboard"

    def order(self, run: base.Run) -> ScanJob | base.Nothing:
        hosts = tuple(host for host in run.hosts_of().hosts if host.over_ssh)
        return ScanJob(hosts=hosts) if hosts else base.Nothing(reason="no host is reached over SSH")
