"""What a saved plan would do, from the engine's `show -json` (format 1.x of HashiCorp's "JSON Output Format")."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from exocomp.approval import Change, Proposal, SavedPlan
from exocomp.drivers.tofu import order, progress
from exocomp.drivers.tofu.files import read_bytes
from exocomp.errors import ExocompError

LARGEST = 512 << 20
INVENTORY = "ansible_inventory"

Action = Literal["create", "update", "replace", "delete", "forget", "import", "move"]


def read(attempt: Path, kept: Path) -> Proposal:
    """Of an attempt that ended at its gate; `kept` is where its plan will lie. Raises ExocompError when what the
    engine showed can't be understood: what can't be shown can't be approved."""
    try:
        shown = json.loads(read_bytes(attempt / order.SHOWN, LARGEST))
        saved = read_bytes(attempt / order.PLAN, LARGEST)
        if shown.get("errored"):
            raise ValueError("the plan is incomplete")
        outputs = shown.get("output_changes", {})
        joins, leaves, known = _hosts_delta(outputs.get(INVENTORY))
        return Proposal(
            plan=SavedPlan(path=str(kept), digest=hashlib.sha256(saved).hexdigest()),
            changes=tuple(_changes(shown.get("resource_changes", []))),
            outputs=tuple(_outputs(outputs)),
            joins=joins,
            leaves=leaves,
            hosts_known=known,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ExocompError(
            f"the plan can't be shown, so nobody can decide on it: {error}",
            hint="see the job's log; is the engine a wrapper that prints on stdout?",
        ) from None


def _changes(found: list[dict[str, Any]]) -> Iterator[Change]:
    for resource in found:
        change = resource["change"]
        if (action := _action(change["actions"], resource, change)) is not None:
            name = progress.strip(str(resource["address"]))
            deposed = f" (deposed {resource['deposed']})" if resource.get("deposed") else ""
            yield Change(name=f"{name}{deposed}", action=action)


def _action(actions: list[str], resource: dict[str, Any], change: dict[str, Any]) -> Action | None:
    match actions:
        case ["create"]:
            return "create"
        case ["update"]:
            return "update"
        case ["delete"]:
            return "delete"
        case ["forget"]:
            return "forget"
        case [first, second] if {first, second} == {"create", "delete"}:
            return "replace"
        case ["create", "forget"]:
            return "create"
        case ["no-op"]:
            if change.get("importing"):
                return "import"
            return "move" if resource.get("previous_address") else None
        case ["read"]:
            return None
    raise ValueError(f"{resource['address']} has the unknown actions {actions}")


def _outputs(found: dict[str, dict[str, Any]]) -> Iterator[Change]:
    for name, change in sorted(found.items()):
        action = _action(change["actions"], {"address": f"output.{name}"}, change)
        if action is not None:
            yield Change(name=progress.strip(name), action=action)


def _hosts_delta(change: dict[str, Any] | None) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """(hosts that join, hosts that leave, whether the plan knows); without such an output there are none."""
    if change is None:
        return (), (), True
    if change.get("before_sensitive") is True or change.get("after_sensitive") is True:
        return (), (), False
    unknown = change.get("after_unknown")
    before = set(_hosts(change.get("before")))
    after = set(_hosts(change.get("after"))) | set(_hosts(unknown))
    return tuple(sorted(after - before)), tuple(sorted(before - after)), not _is_open(unknown)


def _hosts(group: Any) -> Iterator[str]:
    """The names in all `hosts` maps of a map of groups, however deep."""
    for key, value in group.items() if isinstance(group, dict) else ():
        if key == "hosts" and isinstance(value, dict):
            yield from map(str, value)
        elif key != "vars":
            yield from _hosts(value)


def _is_open(unknown: Any) -> bool:
    """Whether hosts could join that the plan has no name for: a whole group, or its map of hosts, is unknown."""
    if unknown is True:
        return True
    if not isinstance(unknown, dict):
        return False
    return any(_is_open(value) for key, value in unknown.items() if key not in ("hosts", "vars")) or (
        unknown.get("hosts") is True
    )
