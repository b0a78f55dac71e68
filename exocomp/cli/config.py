"""`exocomp config`: settings and their origin."""

from __future__ import annotations

from cyclopts import App

from exocomp.cli import output
from exocomp.cli.options import COMMON, Common
from exocomp.cli.render import table

app = App(name="config")


@app.command
def show(*, common: Common = COMMON) -> int:
    """Every setting, its value, and where it came from: flag, environment, a config file, or the default.

    For example:
        exocomp config show
        EXOCOMP_WORKERS=2 exocomp config show --json
    """
    resolved = common.resolved
    found = {
        name: {"value": getattr(resolved.settings, name), "origin": origin}
        for name, origin in resolved.origin.items()
    }
    rows = [(name, _text(each["value"]), str(each["origin"])) for name, each in found.items()]
    output.emit(common, found, table(("SETTING", "VALUE", "FROM"), rows, color=output.colored()))
    return 0


def _text(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)
