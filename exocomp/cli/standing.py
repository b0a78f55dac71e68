"""What a standing inventory's file holds, with whatever is named like a secret masked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from exocomp.errors import ExocompError
from exocomp.protocol.queries import InventoryView

MASK = "********"
_SECRET = re.compile(r"passw|passphrase|secret|token|private_key|api_?key|credential|vault", re.IGNORECASE)


def content(view: InventoryView) -> Any:
    """The file of the generation shown; raises ExocompError when it cannot be read."""
    path = Path(view.current.path)
    try:
        return masked(json.loads(path.read_text("utf-8")))
    except OSError as error:
        what = f"cannot read {path}: {error.strerror}"
        raise ExocompError(what, hint="run this as the daemon's user, or apply the workspace again") from None
    except ValueError:
        raise ExocompError(f"{path} is not JSON", hint="apply the workspace again") from None


def masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: MASK if _is_secret(key, item) else masked(item) for key, item in value.items()}
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
