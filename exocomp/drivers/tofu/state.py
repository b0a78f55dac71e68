"""Local state files: how many resources one holds, never what they are."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from exocomp.drivers.tofu.files import read_bytes
from exocomp.errors import WrongUsage

DEFAULT = "terraform.tfstate"
LARGEST = 1 << 30


class LocalState(msgspec.Struct, frozen=True, kw_only=True):
    """`resources` counts managed instances; None when the state is encrypted."""

    lineage: str
    serial: int
    resources: int | None

    @property
    def is_empty(self) -> bool:
        return self.resources == 0


def read(path: Path) -> LocalState | None:
    """None when there is no state or an empty file; raises WrongUsage when it is something else."""
    try:
        text = read_bytes(path, LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WrongUsage(f"cannot read state file {path}: {error.strerror}") from None
    if not text.strip():
        return None
    try:
        content = json.loads(text)
        resources = None if "encrypted_data" in content else _count(content.get("resources") or [])
        return LocalState(
            lineage=str(content.get("lineage", "")), serial=int(content.get("serial", 0)), resources=resources
        )
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise WrongUsage(f"{path} is not a state file of version 4") from None


def _count(resources: list[dict[str, object]]) -> int:
    return sum(len(r["instances"]) for r in resources if r["mode"] == "managed" and isinstance(r["instances"], list))
