"""A rotation of the fleet key: which workspaces it takes, how far it is, and its end."""

from __future__ import annotations

import logging

from exocomp.actors import orders
from exocomp.actors.admission import Admission
from exocomp.errors import ExocompError
from exocomp.model import RunOptions, RunState
from exocomp.protocol import commands as c
from exocomp.protocol.events import FleetKeyRotated
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.store import events, inventories, workflows, workspaces
from exocomp.store.store import Store, StoreUnwell

log = logging.getLogger(__name__)


class Rotation:
    """All that it knows are the pending key's file and the ledger."""

    def __init__(self, store: Store, keys: FleetKeys) -> None:
        self._store = store
        self._keys = keys

    def begin(self, admission: Admission, order: c.RotateFleetKey) -> c.Rotation:
        """Make or find the pending key and start what is missing; raises ExocompError when a key can't be used."""
        self._keys.current()
        fingerprint = self._keys.begin_rotation().fingerprint
        options = RunOptions(ssh_identities=order.ssh_identities, egress=order.egress, fleet_key=fingerprint)
        under_way, done = [], []
        for workspace, generation in self._concerned().items():
            found = workflows.rotations(self._store, workspace, fingerprint)
            states = {workflow.state: workflow.id for workflow in found}
            if RunState.RUNNING in states:
                under_way.append(states[RunState.RUNNING])
            elif RunState.SUCCEEDED in states:
                done.append(workspace)
            else:
                start = c.StartWorkflow(kind="rotate", workspace=workspace, options=options)
                under_way.append(orders.start(self._store, admission, start, generation).workflow)
        return c.Rotation(fingerprint=fingerprint, workflows=tuple(under_way), done=tuple(done))

    def conclude(self) -> None:
        """Promote the pending key once no workspace lacks it; raises StoreUnwell. An event tells it, and but once."""
        try:
            pending = self._keys.pending()
            if pending is None:
                return
            if not events.was_rotated(self._store, pending.fingerprint):
                if self.lacking(pending.fingerprint):
                    return
                replaced = self._keys.current().fingerprint
                rotated = FleetKeyRotated(fingerprint=pending.fingerprint, replaced=replaced)
                events.note(self._store, "fleet_key_rotated", rotated)
            self._keys.promote()
        except StoreUnwell:
            raise
        except ExocompError as error:
            # Its keys are a person's to mend; whatever else the daemon does goes on, with both of them.
            log.error("the rotation of the fleet key can't be concluded: %s (%s)", error.what, error.hint)

    def lacking(self, fingerprint: str) -> tuple[str, ...]:
        """The workspaces with hosts over SSH that have no rotation to this key behind them."""
        return tuple(
            workspace
            for workspace in self._concerned()
            if not any(
                workflow.state is RunState.SUCCEEDED
                for workflow in workflows.rotations(self._store, workspace, fingerprint)
            )
        )

    def _concerned(self) -> dict[str, int]:
        # A host that joins a later generation is onboarded with the pending key.
        standing = [
            (space.name, inventories.find(self._store, f"tf:{space.name}")) for space in workspaces.every(self._store)
        ]
        return {
            name: current.number
            for name, current in standing
            if current and any(host.over_ssh for host in current.hosts)
        }
