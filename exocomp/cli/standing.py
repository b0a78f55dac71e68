"""What a standing inventory's file holds, with whatever is named like a secret masked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from exocomp.cli.inventory_views import mend
from exocomp.errors import ExocompError
from exocomp.inventory import own
from exocomp.protocol.queries import InventoryView

MASK = "********"
_SECRET = re.compile(r"passw|passphrase|secret|token|private_key|api_?key|credential|vault", re.IGNORECASE)


def content(view: InventoryView) -> Any:
    """The file of the generation shown as a map; raises ExocompError when it cannot be read."""
    path = Path(view.current.path)
    try:
        text = path.read_bytes()
    except OSError as error:
        what = f"cannot read {path}: {error.strerror}"
        raise ExocompError(what, hint=f"run this as the daemon's user, or: {mend(view.name)}") from None
    try:
        return masked(json.loads(text))
    except ValueError:
        found = own.as_map(text, path)  # an operator's file may be YAML
        if found is None:
            raise ExocompError(f"{path} is no inventory", hint=mend(view.name)) from None
        return masked(found)


def masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): MASK if _is_secret(str(key), item) else masked(item) for key, item in value.items()}
    return [masked(item) for item in value] if isinstance(value, list) else value


def _is_secret(key: str, value: Any) -> bool:
    return bool(_SECRET.search(key)) and not isinstance(value, bool | None | dict)


def text(view: InventoryView, found: Any) -> str:
    """The group vars of a hostless inventory as `name = value`, else the whole as JSON."""
    if view.current.hosts:
        return json.dumps(found, indent=2, ensure_ascii=True)
    variables = found.get("all", {}).get("vars", {}) if isinstance(found, dict) else {}
    return "\n".join(f"{name} = {json.dumps(_bare(value))}" for name, value in variables.items())


def _bare(value: Any) -> Any:
    """Without ansible's mark of text that is never a template."""
    if isinstance(value, dict):
        return (
            value["__ansible_unsafe"]
            if set(value) == {"__ansible_unsafe"}
            else {k: _bare(v) for k, v in value.items()}
        )
    return [_bare(item) for item in value] if isinstance(value, list) else value
