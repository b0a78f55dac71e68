"""What a schedule or a rule starts, read from its flags and from the playbook and flags after `--`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

from cyclopts import App, CycloptsError, Parameter
from msgspec.structs import replace

from exocomp.cli import parse
from exocomp.cli.options import PLAY, PLAY_FLAGS, PlayFlags
from exocomp.cli.wording import said
from exocomp.errors import WrongUsage
from exocomp.model import RunOptions, Work

T = TypeVar("T")
Kind = Literal["play", "apply", "plan"]
Key = Annotated[
    str | None,
    Parameter(
        name="--concurrency-key",
        help="Of one key one workflow runs and one waits, more are skipped. A schedule has its own.",
    ),
]
AllowDestroy = Annotated[
    bool,
    Parameter(
        name="--allow-destroy", help="An apply may destroy and replace resources without asking for an approval."
    ),
]
Egress = Annotated[
    tuple[int, ...],
    Parameter(name="--egress", group=PLAY, help="A TCP port beside 22 that the play may connect to; may repeat."),
]
SshIdentity = Annotated[
    tuple[str, ...],
    Parameter(name="--ssh-identity", group=PLAY, help="A private key file for the logins; may repeat."),
]
Rest = Annotated[
    tuple[str, ...],
    Parameter(
        name="--",
        group=PLAY,
        allow_leading_hyphen=True,
        consume_multiple=True,
        help="The playbook and its flags, as `exocomp playbook run` takes them: --check, --limit, --tags …",
    ),
]


def work(
    kind: Kind,
    target: str,
    *,
    key: str | None,
    egress: Sequence[int],
    ssh_identity: Sequence[str],
    rest: Sequence[str],
    example: str,
    allow_destroy: bool = False,
) -> Work:
    """Raises WrongUsage; `example` is the command up to `--`, for the hint when the playbook is missing."""
    if key is not None and not key.strip():
        raise WrongUsage(f"--concurrency-key {key!r} is empty")
    if not target.strip():
        raise WrongUsage(f"target {target!r} is empty")
    if allow_destroy and kind != "apply":
        raise WrongUsage(f"--allow-destroy is for an apply, and this is a {kind}", hint="leave it out")
    if kind == "play":
        playbook, options = _play(rest, f"{example} -- site.yml --check")
        more = parse.run_options(PlayFlags(egress=tuple(egress), ssh_identity=tuple(ssh_identity)))
        options = replace(
            options,
            egress=_together(more.egress, options.egress),
            ssh_identities=_together(more.ssh_identities, options.ssh_identities),
        )
        return Work(kind=kind, target=target, playbook=playbook, options=options, key=key)
    which = "an apply" if kind == "apply" else "a plan"
    if rest:
        raise WrongUsage(f"{which} runs no playbook: {rest[0]!r}", hint="leave out what follows `--`, or --kind play")
    if egress or ssh_identity:
        flag = "--egress" if egress else "--ssh-identity"
        raise WrongUsage(f"{flag} is for a play, and this is {which}", hint="a workspace has its own --egress")
    if target.startswith("tf:"):
        hint = f"name the workspace: {target.removeprefix('tf:')}"
        raise WrongUsage(f"{which} is of a workspace, and {target!r} is an inventory", hint=hint)
    return Work(kind=kind, target=target, key=key, options=RunOptions(allow_destroy=allow_destroy))


def _play(rest: Sequence[str], example: str) -> tuple[str, RunOptions]:
    """The absolute path of the playbook, and what its flags ask for."""
    app = App(default_parameter=Parameter(negative=()), help_flags=(), version_flags=())

    @app.default
    def take(playbook: str | None = None, /, *, play: PlayFlags = PLAY_FLAGS) -> tuple[str | None, PlayFlags]:
        return playbook, play

    try:
        playbook, play = app(list(rest), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        hint = "its flags are those of a play: see `exocomp playbook run --help`"
        raise WrongUsage(f"after `--`: {said(error)}", hint=hint) from None
    if playbook is None:
        raise WrongUsage("a play needs its playbook after `--`", hint=f"for example: {example}")
    return str(parse.regular_file(playbook, "playbook")), parse.run_options(play)


def _together(first: tuple[T, ...], second: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((*first, *second)))
