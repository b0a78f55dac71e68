"""Saved plans between their gate and their apply: one sealed file each, in a directory of the daemon's own."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from exocomp.actors import projects
from exocomp.approval import Proposal, SavedPlan
from exocomp.config import Layout, Settings
from exocomp.drivers.tofu import order, proposal
from exocomp.drivers.tofu.files import make_private, read_bytes, write_private
from exocomp.errors import Conflict
from exocomp.protocol.jobs import Job, TofuJob
from exocomp.secrets.sealing import Seal


def propose(job: Job, attempt: Path, layout: Layout, settings: Settings, seal: Seal) -> Proposal:
    """What an attempt that ended at its gate asks for; its plan is sealed and kept. Raises ExocompError."""
    assert isinstance(job.spec, TofuJob)
    kept = layout.plans / job.id
    asked = proposal.read(attempt, kept)
    make_private(layout.plans)
    write_private(kept, seal.seal(_row(kept), read_bytes(attempt / order.PLAN, proposal.LARGEST)))
    digests = {playbook: projects.digest(Path(playbook), layout, settings) for playbook in job.spec.followed_by}
    return msgspec.structs.replace(asked, projects=digests)


def fetch(saved: SavedPlan, attempt: Path, seal: Seal) -> None:
    """Put an approved plan where the engine finds it; raises Conflict unless it is the one that was shown."""
    path = Path(saved.path)
    try:
        plan = seal.unseal(_row(path), path.read_bytes())
    except FileNotFoundError:
        raise Conflict(
            f"the approved plan {path} is lost", hint="retry the workflow: it plans anew and asks again"
        ) from None
    if hashlib.sha256(plan).hexdigest() != saved.digest:
        raise Conflict(
            f"the plan in {path} is not the approved one", hint="retry the workflow: it plans anew and asks again"
        )
    write_private(attempt / order.PLAN, plan)


def sweep(layout: Layout, kept: frozenset[Path]) -> None:
    """Remove the plans that nobody can apply any more."""
    for path in layout.plans.iterdir() if layout.plans.is_dir() else ():
        if path not in kept:
            os.unlink(path)


def _row(path: Path) -> str:
    return f"plan/{path.name}"
