"""Where the seeded runbooks lie: in the wheel, or in the checkout that an editable install points to."""

from __future__ import annotations

from pathlib import Path

from exocomp.errors import NotFound

_PACKAGE = Path(__file__).parent
_HOMES = (_PACKAGE / "share" / "runbooks", _PACKAGE.parent / "share" / "runbooks")


def path(name: str) -> Path:
    """Absolute path of a seeded runbook; raises NotFound."""
    for home in _HOMES:
        if (home / name).is_file():
            return home / name
    raise NotFound(f"the seeded runbook {name} is not installed", hint="reinstall exocomp")


def is_seeded(playbook: Path) -> bool:
    """Whether a playbook is one of ours, which needs nothing that lies around it."""
    return playbook.parent in _HOMES
