"""Capture: outputs of a successful apply become the next content of the standing inventory."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from exocomp.config import Layout
from exocomp.drivers.tofu import outcome
from exocomp.errors import ExocompError
from exocomp.inventory import generations, loader, shape
from exocomp.model import Host, Workspace
from exocomp.protocol.mail import Captured


class Loader:
    """A process that has imported ansible's inventory loader and waits for a file to be asked about."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process

    async def hosts(self, file: Path, *, sensitive: bool) -> tuple[Host, ...]:
        """The hosts of an inventory file as ansible itself would dial them; raises ExocompError."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            await process.stdin.send_all(loader.question(file))
            await process.stdin.aclose()
        except trio.BrokenResourceError:
            pass  # it died: its stderr says why
        said: list[bytes] = [b"", b""]

        async def read(at: int, stream: trio.abc.ReceiveStream) -> None:
            async for chunk in stream:
                said[at] += chunk

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, 0, process.stdout)
            nursery.start_soon(read, 1, process.stderr)
        code = await process.wait()
        return loader.parse_hosts(said[0], said[1], code, sensitive=sensitive)


@asynccontextmanager
async def warm_loader(home: Path) -> AsyncIterator[Loader]:
    """Started beside the apply, so that the half second of its imports is hidden behind it."""
    process = await trio.lowlevel.open_process(
        loader.loader_argv(),
        env=loader.loader_env(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield Loader(process)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                await trio.aclose_forcefully(stream)


async def capture(workspace: Workspace, directory: Path, layout: Layout, ask: Loader) -> Captured:
    """Validate the outputs, write the immutable file and ask ansible's own loader what it would dial.

    Raises ExocompError, naming host and value, when the outputs can't become an inventory.
    """
    inventory = generations.inventory_name(workspace.name)
    try:
        outputs = outcome.outputs(directory)
        given = outputs.get("ansible_inventory")
        content = shape.compose(outputs)
        path, digest = generations.write(content, generations.generations_path(layout, inventory))
        hosts = await ask.hosts(path, sensitive=given is not None and given.sensitive)
    except ExocompError as error:
        raise ExocompError(
            f"the apply succeeded, but its outputs make no inventory: {error.what}", hint=error.hint
        ) from None
    return Captured(inventory=inventory, path=str(path), digest=digest, hosts=hosts, outputs=len(outputs))
