"""Flags that every command takes, and those that every play takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from exocomp.config import Resolved, resolve

EVERYWHERE = Group("Everywhere", sort_key=99)
PLAY = Group("The play", sort_key=50)


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """Where the daemon is and how to print."""

    output: Annotated[
        Literal["text", "json"], Parameter(group=EVERYWHERE, help="How to print; events and logs are JSON Lines.")
    ] = "text"
    json: Annotated[bool, Parameter(group=EVERYWHERE, help="The same as --output json.")] = False
    data_dir: Annotated[str | None, Parameter(group=EVERYWHERE, help="The daemon's data dir.")] = None
    socket: Annotated[str | None, Parameter(group=EVERYWHERE, help="The daemon's socket.")] = None

    @property
    def as_json(self) -> bool:
        return self.json or self.output == "json"

    @property
    def resolved(self) -> Resolved:
        """Raises WrongUsage for a setting that does not fit."""
        return resolve({"data_dir": absolute(self.data_dir), "socket": absolute(self.socket)})

    @property
    def socket_file(self) -> Path:
        return Path(self.resolved.settings.socket)


def absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())


COMMON = Common()


@Parameter(name="*")
@dataclass(frozen=True)
class PlayFlags:
    """What is passed to the play."""

    limit: Annotated[
        str | None, Parameter(alias="-l", group=PLAY, help="Hosts to limit the play to, as ansible takes them.")
    ] = None
    tags: Annotated[str | None, Parameter(alias="-t", group=PLAY, help="Run only tasks with these tags.")] = None
    skip_tags: Annotated[str | None, Parameter(group=PLAY, help="Run no task with these tags.")] = None
    check: Annotated[
        bool,
        Parameter(alias="-C", group=PLAY, help="Only check the play; the steps that a chain has before it are real."),
    ] = False
    diff: Annotated[bool, Parameter(alias="-D", group=PLAY, help="Show what changes inside files.")] = False
    extra_vars: Annotated[
        str | None,
        Parameter(name="--extra-vars", alias="-e", group=PLAY, help="A JSON object, or @FILE that holds one."),
    ] = None
    ssh_identity: Annotated[
        tuple[str, ...], Parameter(group=PLAY, help="A private key file for the logins; may repeat.")
    ] = ()
    egress: Annotated[
        tuple[int, ...], Parameter(group=PLAY, help="A TCP port beside 22 that the plays may connect to; may repeat.")
    ] = ()


PLAY_FLAGS = PlayFlags()
