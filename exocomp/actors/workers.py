"""The pool: prepares, starts or adopts an attempt, waits for its end and reports what it means."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import trio

from exocomp import crash
from exocomp.actors import jails, plans, walls
from exocomp.actors.base import Actor, Mailbox
from exocomp.actors.capture import Loader, capture, warm_loader
from exocomp.actors.executor import Executor, was_started
from exocomp.actors.prepare import prepare, source_of
from exocomp.config import Layout, Settings
from exocomp.drivers.ansible import outcome as ansible
from exocomp.drivers.tofu import outcome as tofu
from exocomp.errors import ExocompError
from exocomp.model import Exit, Tier
from exocomp.protocol.jobs import Job, PlayJob, TofuJob
from exocomp.protocol.mail import Report, RunJob, StopJob
from exocomp.sandbox import view
from exocomp.secrets.sealing import Seal
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.store import jobs
from exocomp.store.store import Store


class Workers(Actor[RunJob | StopJob]):
    """Always drains: each job is a task of its own. Cancelling the pool leaves the shims alive."""

    def __init__(
        self,
        store: Store,
        layout: Layout,
        settings: Settings,
        executor: Executor,
        *,
        mailbox: Mailbox[Any],
        boss: Mailbox[Any],
        fleet: FleetKeys,
        seal: Seal,
    ) -> None:
        super().__init__(mailbox=mailbox)
        self._store = store
        self._layout = layout
        self._settings = settings
        self._executor = executor
        self._boss = boss
        self._fleet = fleet
        self._seal = seal
        self._stopping: set[str] = set()
        self._directories: dict[str, Path] = {}
        self._taken: set[tuple[str, int]] = set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as self._nursery:
            await super().run(task_status=task_status)

    async def handle(self, message: RunJob | StopJob) -> None:
        match message:
            case RunJob(job=job, attempt=attempt):
                if (job.id, attempt) not in self._taken:  # else it was told before and after a restart of the pool
                    self._taken.add((job.id, attempt))
                    self._nursery.start_soon(self._run, job, attempt)
            case StopJob(job=id):
                self._stopping.add(id)
                if (directory := self._directories.get(id)) is not None:
                    await self._executor.cancel(directory)

    async def _run(self, job: Job, attempt: int) -> None:
        directory = self._layout.attempt(job.id, attempt)
        try:
            report = await self._attempt(job, attempt, directory)
        except ExocompError as error:
            report = Report(job=job.id, attempt=attempt, outcome="failed", reason=error.what, hint=error.hint)
        await self._boss.ask(report)
        self._stopping.discard(job.id)
        self._directories.pop(job.id, None)
        self._taken.discard((job.id, attempt))
        if isinstance(job.spec, TofuJob):
            tofu.tidy(directory)  # only now: until the report is on disk, the outputs may be needed again
            if job.spec.saved is not None and report.outcome != "lost":
                Path(job.spec.saved.path).unlink(missing_ok=True)

    async def _attempt(self, job: Job, attempt: int, directory: Path) -> Report:
        if not was_started(directory):
            shutil.rmtree(directory, ignore_errors=True)  # half prepared by a daemon that died
            try:
                spec = await prepare(
                    job, directory, self._store, self._layout, self._settings, self._fleet, self._seal
                )
            except OSError as error:
                raise _disk(f"cannot prepare the attempt {directory}", error) from error
            if job.id in self._stopping:
                return Report(job=job.id, attempt=attempt, outcome="cancelled", reason="cancelled before it started")
            crash.point(f"prepared.{job.step}")
            await self._executor.start(directory, spec)
            crash.point(f"started.{job.step}")
        self._directories[job.id] = directory
        if job.id in self._stopping:
            await self._executor.cancel(directory)
        if job.kind != "tofu":
            return await self._end(job, attempt, directory, None)
        async with warm_loader(directory / "loader") as loader:
            return await self._end(job, attempt, directory, loader)

    async def _end(self, job: Job, attempt: int, directory: Path, loader: Loader | None) -> Report:
        exit = await self._executor.wait(directory)
        crash.point(f"exited.{job.step}")
        if exit is None:
            reason = "the attempt ended without a result (machine restarted, or its supervisor was killed)"
            return Report(job=job.id, attempt=attempt, outcome="lost", reason=reason)
        try:
            return await self._judge(job, attempt, directory, exit, loader)
        except OSError as error:
            raise _disk(f"{job.step} ended, but what came of it could not be kept", error) from error

    async def _judge(self, job: Job, attempt: int, directory: Path, exit: Exit, loader: Loader | None) -> Report:
        source, commit = source_of(directory)
        report = Report(
            job=job.id, attempt=attempt, outcome="succeeded", exit_code=exit.code, source=source, commit=commit
        )
        log = "" if exit.code == 0 else walls.tail(directory / "log")
        if (unmade := walls.unmade(exit, log)) is not None:
            return msgspec.structs.replace(report, outcome="failed", reason=unmade.reason, hint=unmade.hint)
        match job.spec:
            case TofuJob() as spec:
                verdict = await trio.to_thread.run_sync(tofu.judge, spec, exit, directory)
                if tofu.is_at_gate(spec, exit):
                    asked = await trio.to_thread.run_sync(
                        plans.propose, job, directory, self._layout, self._settings, self._seal
                    )
                    return msgspec.structs.replace(report, proposal=asked)
                if verdict.ok and loader is not None and (directory / "outputs.json").exists():
                    captured = await capture(spec.workspace, directory, self._layout, loader)
                    captured = msgspec.structs.replace(captured, moved=tofu.moved(directory))
                    return msgspec.structs.replace(report, captured=captured)
            case PlayJob() as spec:
                verdict, hosts = await trio.to_thread.run_sync(ansible.judge, spec, exit, directory)
                report = msgspec.structs.replace(report, hosts=hosts)
            case _:
                raise TypeError(f"{job.kind} jobs are not run by the pool")
        if verdict.ok:
            return report
        shown = (*view.base_view().execute, *view.base_view().read, *jails.PYTHON, str(self._layout.root))
        tier = jobs.tier(self._store, job.id) or Tier.OFF
        verdict = walls.explain(verdict, job, log, shown, tier)
        outcome = "cancelled" if exit.cancelled else "failed"
        return msgspec.structs.replace(report, outcome=outcome, reason=verdict.reason, hint=verdict.hint)


def _disk(what: str, error: OSError) -> ExocompError:
    where = f" ({error.filename})" if error.filename else ""
    hint = "check space and permissions of the data dir, then retry: what is done is not repeated"
    return ExocompError(f"{what}: {error.strerror or error}{where}", hint=hint)
