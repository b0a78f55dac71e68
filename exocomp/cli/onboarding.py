"""`exocomp host onboard`: scan, show, pin or rotate, and the command that pushes the fleet key."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from exocomp import runbooks
from exocomp.cli import doing, output
from exocomp.cli.options import Common
from exocomp.cli.render import clean
from exocomp.errors import Conflict
from exocomp.protocol.commands import (
    Done,
    FleetKeyShown,
    PinHost,
    ScanHost,
    Scanned,
    ScannedKey,
    ShowFleetKey,
)


def onboard(common: Common, host: str, *, port: int | None, user: str | None, rotate: bool, yes: bool) -> int:
    """Exit code; raises Conflict when a recorded key changed and `rotate` is not given."""
    scanned = doing.do(common, ScanHost(host=host, port=port), Scanned)
    output.note(comparison(scanned))
    if scanned.verdict == "changed" and not rotate:
        raise Conflict(
            f"the host key of {scanned.name} changed: recorded {_listed(scanned.recorded)}; "
            f"offered {_listed(scanned.offered)}",
            hint=f"compare the offered one out of band, then: exocomp host onboard {shlex.quote(host)} --rotate",
        )
    pinned = _pin(common, scanned, rotate=rotate, yes=yes)
    if pinned is None:
        output.note("nothing was pinned")
        return 1
    shown = doing.do(common, ShowFleetKey(), FleetKeyShown)
    public_key = (shown.pending or shown).public_key
    command = play_command(scanned, user, public_key)
    document = {
        "name": scanned.name,
        "address": scanned.address,
        "port": scanned.port,
        "verdict": scanned.verdict,
        "pinned": pinned,
        "keys": scanned.offered,
        "recorded": scanned.recorded,
        "fleet_public_key": public_key,
        "command": command,
    }
    output.emit(common, document, command)
    return 0


def _pin(common: Common, scanned: Scanned, *, rotate: bool, yes: bool) -> bool | None:
    """True: pinned now; False: nothing to pin; None: the person said no."""
    if scanned.verdict == "known":
        return False
    replace = rotate and bool(scanned.recorded)
    if replace and not output.confirm(f"replace the recorded keys of {scanned.name}", yes=yes):
        return None
    done = doing.do(common, PinHost(name=scanned.name, keys=scanned.offered, rotate=replace), Done)
    output.note(done.message)
    return True


def comparison(scanned: Scanned) -> str:
    """Every key with its fingerprint and whether it is recorded, offered, or both."""
    recorded = {(key.key_type, key.key) for key in scanned.recorded}
    offered = {(key.key_type, key.key) for key in scanned.offered}
    keys = dict.fromkeys((*scanned.recorded, *scanned.offered))
    lines = [f"{clean(scanned.name)} at {clean(scanned.address)} port {scanned.port}: {scanned.verdict}"]
    for key in keys:
        one = (key.key_type, key.key)
        place = "both" if one in recorded and one in offered else "recorded" if one in recorded else "offered"
        lines.append(f"  {place.ljust(8)} {clean(key.key_type)} {clean(key.fingerprint)}")
    return "\n".join(lines)


def _listed(keys: Sequence[ScannedKey]) -> str:
    return ", ".join(f"{key.key_type} {key.fingerprint}" for key in keys) or "nothing"


def play_command(scanned: Scanned, user: str | None, public_key: str) -> str:
    """The ready ansible-playbook line; JSON, because ansible's k=v form splits the key at its blanks."""
    variables: dict[str, Any] = {"exocomp_fleet_pubkey": public_key}
    if scanned.port != 22:
        variables["ansible_port"] = scanned.port
    words = ["ansible-playbook", "-i", f"{scanned.address},"]
    words += ["-u", user] if user else []
    words += ["--extra-vars", json.dumps(variables), str(runbooks.path("onboard.yml"))]
    return shlex.join(words)
