"""Reads: from the store itself, so that they work with the daemon down; through the daemon where only it is named."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from exocomp.cli.options import Common
from exocomp.errors import Bug
from exocomp.protocol.queries import AnyQuery

A = TypeVar("A")


def ask(common: Common, query: AnyQuery, kind: type[A]) -> A:
    """The answer, which is a `kind`; raises what the store or the daemon refuses with."""
    if only_socket(common):
        from exocomp.cli import doing

        found = doing.ask(common, query)
    else:
        from exocomp.store import answer

        found = answer.ask(Path(common.resolved.settings.data_dir), query)
    if not isinstance(found, kind):
        raise Bug(f"{type(query).__name__} was answered by {type(found).__name__}")
    return found


def only_socket(common: Common) -> bool:
    """The socket was named more closely than the data dir: what is meant is that daemon, wherever its store lies."""
    origin = common.resolved.origin
    return _closeness(origin["socket"]) > _closeness(origin["data_dir"])


def _closeness(origin: str) -> int:
    return {"default": 0, "environment": 2, "flag": 3}.get(origin, 1)
