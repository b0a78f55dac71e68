"""Commands to the daemon, one connection each; trio is imported only here and in what needs it live."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from exocomp.cli.options import Common
from exocomp.errors import Bug, ExocompError
from exocomp.protocol.commands import AnyCommand, AnyReply
from exocomp.protocol.queries import AnyAnswer, AnyQuery

R = TypeVar("R")


def do(common: Common, command: AnyCommand, kind: type[R]) -> R:
    """The daemon's reply, which is a `kind`; raises what it refused with, NoDaemon when there is none."""
    reply = run(_do, common.socket_file, command)
    if not isinstance(reply, kind):
        raise Bug(f"{type(command).__name__} was replied to by {type(reply).__name__}")
    return reply


def ask(common: Common, query: AnyQuery) -> AnyAnswer:
    return run(_ask, common.socket_file, query)


def run(task: Callable[..., Awaitable[R]], *args: Any) -> R:
    """trio.run, with the one failure of a group raised by itself."""
    import trio

    try:
        return trio.run(task, *args)
    except BaseExceptionGroup as group:
        raise _foremost(group) from None


async def _do(socket: Path, command: AnyCommand) -> AnyReply:
    from exocomp.client import connect

    async with connect(socket) as client:
        return await client.do(command)


async def _ask(socket: Path, query: AnyQuery) -> AnyAnswer:
    from exocomp.client import connect

    async with connect(socket) as client:
        return await client.ask(query)


def _foremost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """A bug before all else, then Ctrl-C, then what a person can act on."""
    leaves = list(_leaves(group))
    expected = (KeyboardInterrupt, BrokenPipeError, ExocompError)
    if any(not isinstance(leaf, expected) for leaf in leaves):
        return group
    return min(leaves, key=lambda leaf: next(n for n, kind in enumerate(expected) if isinstance(leaf, kind)))


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    out: list[BaseException] = []
    for each in group.exceptions:
        out += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return out
