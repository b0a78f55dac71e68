"""`exocomp fleet-key`: the key that the fleet trusts."""

from __future__ import annotations

from cyclopts import App

from exocomp.cli import doing, output
from exocomp.cli.options import COMMON, Common
from exocomp.protocol.commands import FleetKeyShown, ShowFleetKey

app = App(name="fleet-key")


@app.command
def show(*, common: Common = COMMON) -> int:
    """The public key as one authorized_keys line. The private key never leaves the daemon's data dir.

    For example:
        exocomp fleet-key show
    """
    shown = doing.do(common, ShowFleetKey(), FleetKeyShown)
    output.emit(common, shown, shown.public_key)
    return 0
