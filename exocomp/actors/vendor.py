"""Vendoring: one at a time, ansible-galaxy fills a tree aside, which then becomes the current one or goes away."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import trio

from exocomp import crash, runbooks
from exocomp.config import Layout, Settings
from exocomp.errors import Conflict, ExocompError
from exocomp.protocol.commands import VendorContent, Vendored, VendoredEntry
from exocomp.protocol.events import ContentVendored
from exocomp.vendoring import galaxy, reasons, requirements, tree
from exocomp.vendoring.installed import installed
from exocomp.vendoring.lock import Lock, digest
from exocomp.vendoring.requirements import Requirements
from exocomp.vendoring.tree import COLLECTIONS, ROLES, Staging

T = TypeVar("T")

SEEDED = "requirements.yml"
DEADLINE_S = 1800.0
OUTPUT = "output"  # in the work directory: what ansible-galaxy said
TAIL = 256 << 10  # bytes of it that are read
NOT_DONE = "nothing changed: what was vendored before is still in use"


class Vendor:
    """Carries out VendorContent in the task of whoever asks; cancelling that task ends ansible-galaxy and undoes all.

    `note` records the event; `in_use` names the trees of running attempts (tree.Vendored.path.name); both
    are called in the task, never in a thread.
    """

    def __init__(
        self,
        layout: Layout,
        settings: Settings,
        note: Callable[[ContentVendored], None],
        in_use: Callable[[], Iterable[str]] = tuple,
        *,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._shelf = layout.vendor
        self._settings = settings
        self._note = note
        self._in_use = in_use
        self._deadline_s = deadline_s
        self._under_way: Path | None = None

    async def carry_out(self, command: VendorContent) -> Vendored:
        """Vendor what a requirements file names, in the place of what was vendored before.

        Raises Conflict while another one is under way, WrongUsage for the file, ExocompError when it can't be had;
        nothing changed then.
        """
        file = runbooks.path(SEEDED) if command.requirements is None else Path(command.requirements)
        if self._under_way is not None:
            raise Conflict(
                f"vendoring of {self._under_way} is under way", hint="wait until it has ended, then say it again"
            )
        self._under_way = file
        try:
            wanted = await trio.to_thread.run_sync(requirements.read, file)
            if command.requirements is None and wanted == Requirements():
                return Vendored(entries=(), directory="")
            return await self._vendor(file, wanted)
        finally:
            self._under_way = None

    async def _vendor(self, file: Path, wanted: Requirements) -> Vendored:
        program = galaxy.program(self._settings.ansible_playbook)
        staging = await _on_disk(partial(self._open, file, wanted, frozenset(self._in_use())))
        try:
            with trio.move_on_after(self._deadline_s) as scope:
                for order in galaxy.orders(
                    program, wanted, staging.work, staging.tree / COLLECTIONS, staging.tree / ROLES
                ):
                    await self._run(order, staging)
            if scope.cancelled_caught:
                raise ExocompError(
                    f"vendoring of {file} took longer than {self._deadline_s:g} s and was ended",
                    hint=f"see what holds up the servers that it names; {NOT_DONE}",
                )
            crash.point("vendor.installed")
            lock = await _on_disk(partial(self._publish, staging, file, wanted, frozenset(self._in_use())))
            names = tuple(f"{entry.name} {entry.version}".strip() for entry in lock.entries)
            # No checkpoint since the tree became the current one: a cancel can't come between it and its event.
            self._note(ContentVendored(requirements=str(file), entries=names, digest=digest(lock)))
        finally:
            with trio.CancelScope(shield=True):
                await _on_disk(staging.close)
        entries = tuple(VendoredEntry(**msgspec.structs.asdict(entry)) for entry in lock.entries)
        return Vendored(entries=entries, directory=str(self._shelf / staging.name))

    def _open(self, file: Path, wanted: Requirements, in_use: frozenset[str]) -> Staging:
        tree.sweep(self._shelf, in_use)
        beside = file.parent / galaxy.CONFIG
        config = beside.read_text("utf-8", "replace") if beside.is_file() else ""
        content = galaxy.files(wanted, config)
        staging = Staging(self._shelf)
        try:
            for name in ("home", "tmp"):
                (staging.work / name).mkdir(mode=0o700)
            for name, text in content.items():
                place = os.open(staging.work / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with open(place, "w", encoding="utf-8") as out:
                    out.write(text)
        except OSError:
            staging.close()
            raise
        return staging

    def _publish(self, staging: Staging, file: Path, wanted: Requirements, in_use: frozenset[str]) -> Lock:
        lock = Lock(
            entries=installed(staging.tree, wanted),
            requirements=str(file),
            replaced=tree.current_name(self._shelf),
        )
        staging.publish(lock)
        tree.sweep(self._shelf, in_use)
        return lock

    async def _run(self, order: galaxy.Order, staging: Staging) -> None:
        """One ansible-galaxy to its end, in a process group of its own that a cancel kills."""
        output = staging.work / OUTPUT
        env = galaxy.environment(os.environ, staging.work, staging.tree / COLLECTIONS)
        with output.open("wb") as out:
            try:
                process = await trio.lowlevel.open_process(
                    order.argv,
                    env=env,
                    cwd=staging.work,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    pass_fds=(staging.fd,),
                    umask=0o077,
                )
            except OSError as error:
                raise ExocompError(f"cannot start {order.argv[0]}: {error.strerror}", hint=NOT_DONE) from None
        try:
            code = await process.wait()
        except trio.Cancelled:
            if process.returncode is None:  # not reaped yet, so the number is still its own
                os.killpg(process.pid, signal.SIGKILL)
            with trio.CancelScope(shield=True):
                await process.wait()
            raise
        if code != 0:
            raise reasons.explain(order.what, _tail(output), code)


async def _on_disk(work: Callable[[], T]) -> T:
    """Run it in a thread, to its end even when cancelled."""
    try:
        return await trio.to_thread.run_sync(work)
    except OSError as error:
        raise ExocompError(
            f"the vendored content can't be written: {error.strerror or error} ({error.filename})",
            hint="check space and permissions of the data dir, then vendor again",
        ) from error


def _tail(file: Path) -> str:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - TAIL))
        return stream.read().decode("utf-8", "replace")
