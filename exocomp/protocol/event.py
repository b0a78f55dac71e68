"""The base of all events."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all events; `workflow` and `workspace` are what a subscriber filters by."""

    workflow: str | None = None
    workspace: str | None = None
