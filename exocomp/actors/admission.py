"""Admission: the one place where a workflow is let in, whoever asks for it. What can't run over its target is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from exocomp import ids
from exocomp.errors import WrongUsage
from exocomp.inventory import generations
from exocomp.model import RunState, Tier, Workflow
from exocomp.protocol import commands as c
from exocomp.protocol.mail import Captured
from exocomp.store import approvals, inventories, targets, workflows, workspaces
from exocomp.store.store import Store, StoreUnwell
from exocomp.workflows import base, chains


class Admission:
    """`standing` is the file of an inventory by its name, `runbooks` the directory of the seeded ones."""

    def __init__(
        self, store: Store, *, standing: Callable[[str], Path], runbooks: str, tier: Tier, data_dir: str
    ) -> None:
        self._store = store
        self._standing = standing
        self._runbooks = runbooks
        self._tier = tier
        self._data_dir = data_dir

    def admit(
        self, order: c.StartWorkflow, *, key: str | None = None, origin: str = "", requester: str = ""
    ) -> Workflow:
        """The workflow to record.

        Raises ExocompError when there is no such chain or workspace, and for a play when its inventory is
        unregistered, was never materialized, lost its file or had it altered, names no host, or names one that
        the job may not reach.
        """
        chain = chains.chain(order.kind)
        if (order.playbook is None) == (order.kind in chains.WITH_PLAYBOOK):
            raise WrongUsage(f"{order.kind} {'needs a' if order.playbook is None else 'takes no'} playbook")
        over = order.kind in chains.OVER_INVENTORY
        workflow = Workflow(
            id=ids.new("wf"),
            kind=order.kind,
            workspace=self._workspace(order, over),
            playbook=order.playbook,
            options=order.options,
            state=RunState.RUNNING,
            created_at=self._store.now(),
            inventory=order.inventory if over else f"{targets.PREFIX}{order.workspace}",
            key=key,
            origin=origin,
            requester=requester,
        )
        if over:
            self.check_target(workflow.inventory or "")
            chain[0].order(self.run_of(workflow))
        return workflow

    def check_target(self, inventory: str) -> None:
        """Fail closed: raises ExocompError unless what stands is what the ledger knows, and names a host."""
        generations.check(targets.resolve(self._store, inventory), self._standing(inventory))

    def publish(self, got: Captured) -> Path:
        """Make what was captured the standing file, which is returned; raises StoreUnwell when the disk refuses."""
        standing = self._standing(got.inventory)
        try:
            generations.publish(Path(got.path), standing)
        except OSError as error:
            raise StoreUnwell(
                f"cannot write {standing}: {error.strerror}", hint="check space of the data dir"
            ) from error
        return standing

    def run_of(self, workflow: Workflow) -> base.Run:
        """The facts for its steps: the generation that its own apply captured, else the one that stands now."""
        number = workflows.generation_of(self._store, workflow.id)
        space = workflow.workspace
        return base.Run(
            workflow=workflow,
            workspace=None if space is None else workspaces.get(self._store, space),
            generation=inventories.find(self._store, workflow.inventory or "", number),
            runbooks=self._runbooks,
            data_dir=self._data_dir,
            jailed=self._tier is not Tier.OFF,
            approved=approvals.latest(self._store, workflow.id),
        )

    def _workspace(self, order: c.StartWorkflow, over: bool) -> str | None:
        wanted, other = ("inventory", "workspace") if over else ("workspace", "inventory")
        name = getattr(order, wanted)
        if not name or getattr(order, other) is not None:
            raise WrongUsage(f"{order.kind} is of one {wanted}", hint=f"see `exocomp {wanted} list`")
        if not over:
            return workspaces.get(self._store, name).name
        return targets.workspace_of(self._store, name)
