"""Capture: outputs of a successful apply become the next content of the standing inventory."""

from __future__ import annotations

from pathlib import Path

import trio

from exocomp.config import Layout
from exocomp.drivers.tofu import outcome
from exocomp.errors import ExocompError
from exocomp.inventory import address, generations, loader, shape
from exocomp.model import Host, Workspace
from exocomp.protocol.mail import Captured


async def capture(workspace: Workspace, directory: Path, layout: Layout) -> Captured:
    """Validate the outputs, write the immutable file and ask ansible's own loader what it would dial.

    Raises ExocompError, naming host and value, when the outputs can't become an inventory.
    """
    try:
        outputs = outcome.outputs(directory)
        content = shape.compose(outputs)
        path, digest = generations.write(content, layout.inventories / workspace.name)
        hosts = await load(path, directory)
        address.check(hosts)
    except ExocompError as error:
        raise ExocompError(
            f"the apply succeeded, but its outputs make no inventory: {error.what}", hint=error.hint
        ) from None
    return Captured(
        inventory=f"tf:{workspace.name}", path=str(path), digest=digest, hosts=hosts, outputs=len(outputs)
    )


async def load(file: Path, home: Path) -> tuple[Host, ...]:
    """The hosts of an inventory file as ansible sees them."""
    done = await trio.run_process(
        loader.loader_argv(file),
        env=loader.loader_env(home),
        stdin=b"",
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    return loader.parse_hosts(done.stdout, done.stderr, done.returncode)
