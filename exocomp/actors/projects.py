"""The project of a playbook: what is staged of it, and what it is now."""

from __future__ import annotations

from pathlib import Path

from exocomp import runbooks, staging
from exocomp.config import Layout, Settings


def root_of(playbook: Path) -> Path:
    """The directory that is staged for it."""
    return playbook.parent if runbooks.is_seeded(playbook) else staging.project_root(playbook)


def digest(playbook: Path, layout: Layout, settings: Settings) -> str:
    """What staging it now would give; raises ExocompError as `staging.stage` does. Blocks on the disk."""
    return staging.survey(root_of(playbook), layout.stage, settings.stage_limit_mib << 20).digest
