"""The error tree; each class stands for one reaction of the caller.

ExocompError            a failure that a person can act on: what, which, then what to do   (exit 1)
├── WrongUsage          the request itself is malformed; nothing was changed               (exit 2)
├── NoDaemon            no daemon answers on the socket                                    (exit 3)
├── NotAllowed          the caller may not do this                                         (exit 4)
├── NotFound            a named thing does not exist                                       (exit 5)
└── Conflict            it exists already, changed meanwhile, or is in use                 (exit 6)
Bug                     a fault of the program: never shown as the user's mistake
├── IllegalMove         a transition that MOVES does not allow
├── StaleMove           the row was no longer in the state that the writer assumed
└── ActorGone           the actor stopped before it answered
"""

from __future__ import annotations

from typing import ClassVar


class ExocompError(Exception):
    """`what` is one sentence with the offending value; `hint` is the next step for a person."""

    code: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


class WrongUsage(ExocompError):
    code = "usage"
    exit_code = 2


class NoDaemon(ExocompError):
    code = "no_daemon"
    exit_code = 3


class NotAllowed(ExocompError):
    code = "not_allowed"
    exit_code = 4


class NotFound(ExocompError):
    code = "not_found"
    exit_code = 5


class Conflict(ExocompError):
    code = "conflict"
    exit_code = 6


class Bug(Exception):
    """A fault of the program."""


class IllegalMove(Bug):
    """A transition that MOVES does not allow."""


class StaleMove(Bug):
    """The row was no longer in the state that the writer assumed."""


class ActorGone(Bug):
    """The actor stopped before it answered."""


BY_CODE: dict[str, type[ExocompError]] = {
    kind.code: kind for kind in (ExocompError, WrongUsage, NoDaemon, NotAllowed, NotFound, Conflict)
}
