"""`exocomp fleet-key`: the key that the fleet trusts."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from exocomp.cli import doing, output, parse
from exocomp.cli.following import watch
from exocomp.cli.options import COMMON, PLAY, Common
from exocomp.cli.provision import Wait
from exocomp.cli.workspace import Yes
from exocomp.protocol.commands import FleetKeyShown, RotateFleetKey, Rotation, ShowFleetKey

app = App(name="fleet-key")
DETACHED = 130


@app.command
def show(*, common: Common = COMMON) -> int:
    """The public key as one authorized_keys line, its fingerprint, and the rotation under way if there is one.

    The line is on stdout, the rest on stderr. The private key never leaves the daemon's data dir.

    For example:
        exocomp fleet-key show
        exocomp fleet-key show --json
    """
    shown = doing.do(common, ShowFleetKey(), FleetKeyShown)
    output.emit(common, shown, shown.public_key)
    if not common.as_json:
        output.note(f"fingerprint: {shown.fingerprint}")
        _note_pending(shown)
    return 0


@app.command
def rotate(
    *,
    ssh_identity: Annotated[
        tuple[str, ...],
        Parameter(group=PLAY, help="A private key file for the logins that push the new key; may repeat."),
    ] = (),
    egress: Annotated[
        tuple[int, ...], Parameter(group=PLAY, help="A TCP port beside 22 that the plays may connect to; may repeat.")
    ] = (),
    wait: Wait = False,
    yes: Yes = False,
    common: Common = COMMON,
) -> int:
    """Give every host a new fleet key, and take the old one away where the new one has opened the door.

    Where it failed, both keys go on to be used. Said again, it does only what is missing.

    For example:
        exocomp fleet-key rotate --wait
        exocomp fleet-key rotate --egress 2222 --yes
    """
    command = RotateFleetKey(
        ssh_identities=tuple(str(parse.regular_file(path, "--ssh-identity")) for path in ssh_identity),
        egress=parse.ports(egress),
    )
    if not output.confirm("give every host a new fleet key and take the old one away", yes=yes):
        output.note("nothing was rotated")
        return 1
    rotation = doing.do(common, command, Rotation)
    if not wait:
        output.emit(common, rotation, "\n".join(rotation.workflows))
        for id in rotation.workflows if not common.as_json else ():
            output.note(f"watch it: exocomp provision watch {id}")
        _tell(common)
        return 0
    if common.as_json:
        output.line(output.to_json(rotation).decode())
    codes = []
    for id in rotation.workflows:
        codes.append(watch(common, None, id))
        if codes[-1] == DETACHED:
            return DETACHED
    return max(codes, default=0) or _tell(common)


def _tell(common: Common) -> int:
    """Say on stderr where the fleet's key stands: 0 when it is rotated, 1 while the rotation goes on."""
    shown = doing.do(common, ShowFleetKey(), FleetKeyShown)
    if shown.pending is None:
        output.note(f"the fleet's key is now {shown.fingerprint}")
        return 0
    _note_pending(shown)
    return 1


def _note_pending(shown: FleetKeyShown) -> None:
    if shown.pending is not None:
        output.note(f"a rotation to {shown.pending.fingerprint} is under way")
        output.note(f"its workspaces that are not through: {', '.join(shown.pending.lacking) or 'none'}")
        output.note("go on with it: exocomp fleet-key rotate")
