"""The daemon: takes the data dir, builds store and actors, and hands them to the supervisor."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import trio

from exocomp import __version__, runbooks
from exocomp.actors import plans
from exocomp.actors.base import Mailbox
from exocomp.actors.executor import LocalExecutor
from exocomp.actors.expiry import Expiry
from exocomp.actors.gateway import Gateway
from exocomp.actors.intake import Intake
from exocomp.actors.keyscanner import Keyscanner
from exocomp.actors.prepare import trees_in_use
from exocomp.actors.prober import Prober
from exocomp.actors.reactor import Reactor
from exocomp.actors.scheduler import Scheduler
from exocomp.actors.sequencer import Sequencer
from exocomp.actors.tail import Tail
from exocomp.actors.vendor import Vendor
from exocomp.actors.workers import Workers
from exocomp.config import Layout, Settings
from exocomp.errors import Conflict, ExocompError, WrongUsage
from exocomp.inventory.generations import standing_path
from exocomp.model import Tier
from exocomp.protocol.events import DaemonStarted, DaemonStopped
from exocomp.protocol.mail import Drain, RunnerRestarted
from exocomp.sandbox import tiers
from exocomp.secrets import master
from exocomp.secrets.sealing import Seal
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.store import approvals, events, inventories, master_key, pins, steps
from exocomp.store.store import Store, open_writer
from exocomp.supervisor import Child, Escalated, Supervisor, single

log = logging.getLogger(__name__)

# ssh's control sockets lie in the attempt's directory: <root>/jobs/job_<14>/<n>/cp/<10>.<17> must fit in sun_path.
LONGEST_ROOT = 45


def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. Raises ExocompError when it may not start."""
    _log_to_stderr()
    os.umask(0o077)  # whatever is made below the data dir, by whatever library, is its owner's alone
    layout = Layout(Path(settings.data_dir))
    lock = take(layout)
    try:
        store = open_writer(layout.store)
        try:
            seal = master.unlock(layout, os.environ, master_key.known(store))
            master_key.record(store, seal.id)
            plans.sweep(layout, approvals.kept_plans(store))
            return trio.run(_serve, settings, layout, store, seal)
        finally:
            store.close()
    finally:
        os.close(lock)


def take(layout: Layout) -> int:
    """Lock the data dir for this process and return the descriptor; raises Conflict when another daemon has it."""
    root = layout.root
    if len(os.fsencode(root)) > LONGEST_ROOT:
        raise WrongUsage(
            f"the data dir's path is longer than {LONGEST_ROOT} bytes: {root}",
            hint="ssh's control sockets would not fit; choose a shorter --data-dir",
        )
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if root.stat().st_mode & 0o077:
            raise WrongUsage(f"the data dir {root} is open to others", hint=f"chmod 700 {root}")
        lock = os.open(layout.daemon_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WrongUsage(
            f"cannot use the data dir {root}: {error.strerror}", hint="choose another --data-dir"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(lock, 32).decode().strip() or "?"
        os.close(lock)
        raise Conflict(
            f"another daemon (pid {pid}) serves the data dir {root}",
            hint="stop it first, or choose another --data-dir",
        ) from None
    os.truncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return lock


async def _serve(settings: Settings, layout: Layout, store: Store, seal: Seal) -> int:
    tail = Tail(store, layout)
    store.rang = tail.ring
    sequencer_box: Mailbox[Any] = Mailbox()
    workers_box: Mailbox[Any] = Mailbox()
    prober_box: Mailbox[Any] = Mailbox()
    keyscanner_box: Mailbox[Any] = Mailbox()
    scheduler_box: Mailbox[Any] = Mailbox()
    runners = {"tofu": workers_box, "ansible": workers_box, "probe": prober_box, "scan": keyscanner_box}
    executor = LocalExecutor()
    fleet = FleetKeys(layout.keys, seal)
    intake = Intake(store, layout, settings, fleet)

    async def run_workers(**started: Any) -> None:
        workers = Workers(
            store,
            layout,
            settings,
            executor,
            mailbox=workers_box,
            boss=sequencer_box,
            fleet=fleet,
            seal=seal,
        )
        await workers.run(**started)

    async def run_prober(**started: Any) -> None:
        await Prober(mailbox=prober_box, boss=sequencer_box).run(**started)

    async def run_keyscanner(**started: Any) -> None:
        keyscanner = Keyscanner(
            mailbox=keyscanner_box,
            boss=sequencer_box,
            recorded=partial(pins.of, store),
            inventory_host=partial(inventories.host_named, store),
        )
        await keyscanner.run(**started)

    async def run_sequencer(**started: Any) -> None:
        sequencer = Sequencer(
            store,
            mailbox=sequencer_box,
            runners=runners,
            slots=settings.workers,
            runbooks=str(runbooks.path("onboard.yml").parent),
            keys=fleet,
            standing=lambda name: standing_path(layout, name),
            scheduler=scheduler_box,
            tier=settings.sandbox,
            data_dir=str(layout.root),
            approval_expires_s=settings.approval_expires_s,
            approver_apart=settings.approver_is_not_requester,
        )
        await sequencer.run(**started)

    async def run_scheduler(**started: Any) -> None:
        await Scheduler(store, intake, mailbox=scheduler_box, boss=sequencer_box).run(**started)

    async def run_expiry(**started: Any) -> None:
        await Expiry(store, boss=sequencer_box).run(**started)

    async def run_reactor(**started: Any) -> None:
        await Reactor(store, tail, intake, boss=sequencer_box).run(**started)

    gateway = Gateway(
        Path(settings.socket),
        store,
        layout,
        tail,
        intake,
        sequencer=sequencer_box,
        keyscanner=keyscanner_box,
        vendor=Vendor(
            layout,
            settings,
            partial(events.note, store, "content_vendored"),
            in_use=partial(trees_in_use, store, layout),
        ),
    )

    def again(*kinds: str) -> Any:
        async def tell() -> None:
            await sequencer_box.tell(RunnerRestarted(kinds=kinds))

        return tell

    supervisor = Supervisor(
        (
            Child(name="workers", run=run_workers, policy="restart", restarted=again("tofu", "ansible")),
            Child(name="prober", run=run_prober, policy="restart", restarted=again("probe")),
            Child(name="keyscanner", run=run_keyscanner, policy="restart", restarted=again("scan")),
            Child(name="sequencer", run=run_sequencer, policy="escalate"),
            Child(name="scheduler", run=run_scheduler, policy="escalate"),
            Child(name="expiry", run=run_expiry, policy="restart"),
            Child(name="reactor", run=run_reactor, policy="restart"),
            Child(name="gateway", run=gateway.run, policy="restart"),
        )
    )
    events.note(store, "daemon_started", _started(settings.sandbox, len(steps.running_jobs(store))))
    escalated: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(supervisor.run)
            log.info("serving %s at %s, pid %s", layout.root, settings.socket, os.getpid())
            leave = settings.on_stop == "leave"
            finished = partial(tail.until, lambda: leave or not steps.running_jobs(store))
            nursery.start_soon(_until_signal, supervisor, sequencer_box, finished)
    except* Escalated as group:
        escalated = single(group)
    if escalated is not None:
        if isinstance(escalated.__cause__, ExocompError):
            raise escalated.__cause__
        log.error("giving up: %s", escalated)
        return 1
    events.note(store, "daemon_stopped", DaemonStopped(running=len(steps.running_jobs(store))))
    return 0


def _started(wanted: Tier, running: int) -> DaemonStarted:
    """With what the sandbox's probes found; a layer that is missing is said aloud, and each job is refused by it."""
    probe = tiers.probe()
    missing = tuple(f"{layer.name}: {layer.reason}; {layer.cure}" for layer in probe.missing)
    if wanted is Tier.ENFORCING:
        for layer in missing:
            log.error("the sandbox can't be enforced here, no job will run: %s", layer)
    else:
        log.warning("jobs run with sandbox = %s", wanted.value)
    return DaemonStarted(
        version=__version__, running=running, sandbox=wanted, achievable=Tier(probe.achievable), missing=missing
    )


async def _until_signal(
    supervisor: Supervisor, sequencer: Mailbox[Any], finished: Callable[[], Awaitable[None]]
) -> None:
    """First SIGTERM or SIGINT: release nothing more, wait for `finished`, stop in order.

    Shims live on. Second signal: stop at once.
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for number in received:
            log.info("stopping on %s", signal.Signals(number).name)
            break
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop, supervisor, sequencer, finished, nursery.cancel_scope)
            async for number in received:
                log.warning("stopping at once on %s", signal.Signals(number).name)
                os._exit(1)


async def _stop(
    supervisor: Supervisor,
    sequencer: Mailbox[Any],
    finished: Callable[[], Awaitable[None]],
    scope: trio.CancelScope,
) -> None:
    running = await sequencer.ask(Drain())
    log.info("drained, %s job(s) running on", running)
    await finished()
    supervisor.stop()
    scope.cancel()


def _log_to_stderr() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
