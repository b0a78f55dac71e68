"""`exocomp serve`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from exocomp.cli.options import absolute
from exocomp.config import resolve
from exocomp.errors import WrongUsage


def serve(
    *,
    data_dir: Annotated[str | None, Parameter(help="Where the ledger, states, logs and keys lie.")] = None,
    socket: Annotated[str | None, Parameter(help="The Unix socket to listen on.")] = None,
    workers: Annotated[int | None, Parameter(help="How many jobs run at once.")] = None,
) -> int:
    """Run the daemon in the foreground until SIGTERM or Ctrl-C; a second one stops it at once.

    Jobs that are running then live on, and the next daemon takes them over.

    For example:
        exocomp serve
        exocomp serve --data-dir /srv/exocomp --workers 4
    """
    if workers is not None and not 1 <= workers <= 1000:
        raise WrongUsage(f"--workers {workers} is not between 1 and 1000")
    flags = {"data_dir": absolute(data_dir), "socket": absolute(socket), "workers": workers}
    settings = resolve(flags).settings
    from exocomp.daemon import serve as run

    return run(settings)
