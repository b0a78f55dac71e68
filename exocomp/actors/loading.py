"""What the door asks ansible's own loader: which hosts a `--limit` leaves, and what an inventory file holds."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import trio

from exocomp.config import Layout
from exocomp.errors import ExocompError, WrongUsage
from exocomp.inventory import generations, loader, own
from exocomp.protocol import commands as c
from exocomp.protocol.mail import Captured, TakeInventory
from exocomp.store import targets
from exocomp.store.store import Store

TIMEOUT_S = 60.0


class Said(NamedTuple):
    stdout: bytes
    stderr: bytes
    code: int


class Limits:
    """Whether a `--limit` leaves anybody, by ansible's own rules for patterns."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self._store = store
        self._layout = layout

    async def check(self, inventory: str, limit: str) -> None:
        """Raises WrongUsage when no host is left, ExocompError when there is no such inventory or no host in it."""
        generation = targets.resolve(self._store, inventory)
        names = {host.name for host in generation.hosts}
        if limit in names:
            return
        if "@" in limit:
            raise WrongUsage(
                f"--limit {limit!r} names a file, which can't be judged before the run",
                hint="name the hosts or groups themselves",
            )
        said = await _ask(loader.limit_argv(Path(generation.path), limit), self._layout)
        if not loader.parse_matched(*said, limit=limit):
            raise WrongUsage(
                f"--limit {limit!r} matches no host of inventory {inventory}, or has a part that does not",
                hint=f"see `exocomp inventory show {inventory} --hosts`",
            )


class OwnFiles:
    """Inventories that come from files of the operator's."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    async def take(self, command: c.AddInventory) -> TakeInventory:
        """The file as a generation on disk; raises WrongUsage naming what in it can't be used."""
        name, file = generations.own_name(command.name), Path(command.file)
        if not file.is_absolute():
            raise WrongUsage(f"inventory file {file} is not an absolute path")
        text = await trio.to_thread.run_sync(own.read, file)
        content = await trio.to_thread.run_sync(own.as_map, text, file)
        if content is None:
            said = await _ask(loader.export_argv(file), self._layout, "ini")
            kept, told = own.check(loader.parse_content(*said, file=file), None, file)
        else:
            kept, told = own.check(content, text, file)
        into = generations.generations_path(self._layout, name)
        written = generations.write_text(kept, into) if isinstance(kept, bytes) else generations.write(kept, into)
        said = await _ask(loader.loader_argv(written[0]), self._layout)
        try:
            hosts = loader.parse_hosts(*said, mend=f"correct {file}, then add it again")
        except ExocompError as error:
            raise WrongUsage(f"{file}: {error.what}", hint=error.hint) from None
        path, digest = written
        got = Captured(inventory=name, path=str(path), digest=digest, hosts=hosts, outputs=0)
        return TakeInventory(captured=got, told=told)


async def _ask(argv: tuple[str, ...], layout: Layout, plugin: str = "yaml") -> Said:
    env = loader.loader_env(layout.root / "loader", plugin)
    with trio.move_on_after(TIMEOUT_S):
        done = await trio.run_process(argv, env=env, capture_stdout=True, capture_stderr=True, check=False)
        return Said(done.stdout, done.stderr, done.returncode)
    raise ExocompError(f"ansible's inventory loader did not answer within {TIMEOUT_S:.0f} s")
