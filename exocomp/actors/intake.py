"""What is checked at the door, before anything is recorded: the files that a command names."""

from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path

import msgspec
import trio

from exocomp import schedule as cron
from exocomp import triggers
from exocomp.actors import projects
from exocomp.actors.firing import order_of
from exocomp.actors.loading import Limits, OwnFiles
from exocomp.actors.rotation import Rotation
from exocomp.approval import ApprovalState
from exocomp.config import Layout, Settings
from exocomp.drivers.ansible import pinned_ssh
from exocomp.drivers.tofu import workspace as tofu
from exocomp.errors import Conflict, ExocompError, WrongUsage
from exocomp.model import Schedule, Work, Workspace
from exocomp.protocol import commands as c
from exocomp.protocol.approving import DecideApproval
from exocomp.protocol.mail import Begin, Decide, FireSchedule, Refusal, TakeInventory
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.store import approvals, inventories, schedules, targets, workspaces
from exocomp.store.store import Store, StoreUnwell

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LONGEST_REASON = 500
GATED = ("provision", "handoff", "apply", "destroy")


class Intake:
    """The fleet key is made at first use."""

    def __init__(self, store: Store, layout: Layout, settings: Settings, fleet: FleetKeys) -> None:
        self._store = store
        self._layout = layout
        self._settings = settings
        self._fleet = fleet
        self._own = OwnFiles(layout)
        self._limits = Limits(store, layout)

    async def refusal(self, order: c.StartWorkflow) -> Refusal | None:
        """Why an order that nobody gives by hand is not let in; raises StoreUnwell."""
        try:
            await self._start(order)
        except StoreUnwell:
            raise
        except ExocompError as error:
            return Refusal(what=error.what, hint=error.hint)
        return None

    async def check(
        self, command: c.AnyCommand, by: str = ""
    ) -> c.AnyCommand | Begin | TakeInventory | FireSchedule | Decide | c.AnyReply:
        """What the command of the caller `by` is to the actor that carries it out, or its answer; raises ExocompError
        before anything changed."""
        match command:
            case c.AddWorkspace(workspace=workspace):
                if workspace.name in {known.name for known in workspaces.every(self._store)}:
                    return command  # which the sequencer refuses
                return await trio.to_thread.run_sync(self._add, command)
            case c.RemoveWorkspace():
                return await trio.to_thread.run_sync(self._remove, command, workspaces.get(self._store, command.name))
            case c.StartWorkflow():
                await self._start(command)
                return Begin(order=command, by=by)
            case c.AddInventory():
                return await self._own.take(command)
            case c.AddSchedule(schedule=schedule):
                return c.AddSchedule(schedule=self._schedule(schedule))
            case c.RunSchedule(name=name):
                refused = await self.refusal(order_of(schedules.get(self._store, name).work))
                return FireSchedule(name=name, refused=refused)
            case c.AddRule(rule=rule):
                named(rule.name, "rule")
                triggers.check(rule.on, rule.match, rule.work.options.limit)
                self._work(rule.work)
            case c.RotateFleetKey():
                check_play(command.ssh_identities, command.egress, self._layout.root)
            case DecideApproval():
                return await self._decision(command, by)
            case c.ShowFleetKey():
                return await self._show_fleet_key()
        return command

    def _add(self, command: c.AddWorkspace) -> c.AddWorkspace:
        check_ports(command.workspace.egress)
        workspace = tofu.check(command.workspace)
        self._set_aside(workspace.name)
        if command.adopt_state:
            tofu.adopt_state(workspace, self._layout)
        elif tofu.has_own_state(workspace):
            raise Conflict(
                f"{workspace.directory} holds a state file with resources of its own",
                hint="add --adopt-state to copy it into exocomp's care; else every resource would be made twice",
            )
        return msgspec.structs.replace(command, workspace=workspace)

    def _set_aside(self, name: str) -> None:
        """A removed workspace's working copy and state: kept, but never taken up by a new one of the same name."""
        left = self._layout.workspaces / name
        if left.exists():
            aside = self._layout.workspaces / ".removed" / f"{name}-{time.time_ns()}"
            aside.parent.mkdir(mode=0o700, exist_ok=True)
            left.rename(aside)

    def _remove(self, command: c.RemoveWorkspace, workspace: Workspace) -> c.RemoveWorkspace:
        count = tofu.resource_count(workspace, self._layout)
        if count and not command.force:
            raise Conflict(
                f"the state of workspace {workspace.name!r} still holds {count} resource(s)",
                hint=f"exocomp workspace destroy {workspace.name} first, or add --force to forget them",
            )
        return command

    async def _decision(self, command: DecideApproval, by: str) -> Decide:
        approval = approvals.find(self._store, command.id)
        if approval.state is not ApprovalState.OPEN:
            raise approvals.decided(approval)
        if not command.reason.isprintable() or len(command.reason) > _LONGEST_REASON:
            raise WrongUsage(f"--reason is one printable line of at most {_LONGEST_REASON} characters")
        now = {}
        for path in approval.proposal.projects:
            try:
                now[path] = await trio.to_thread.run_sync(projects.digest, Path(path), self._layout, self._settings)
            except ExocompError:
                continue  # gone or unusable is not as it was asked, which the decision says
        return Decide(approval=approval.id, approve=command.approve, projects=now, by=by, reason=command.reason)

    async def _show_fleet_key(self) -> c.FleetKeyShown:
        pending = await trio.to_thread.run_sync(self._fleet.pending)
        current = await trio.to_thread.run_sync(self._fleet.current)
        shown = c.FleetKeyShown(public_key=current.public_line, fingerprint=current.fingerprint)
        if pending is None or pending.fingerprint == current.fingerprint:
            return shown
        return msgspec.structs.replace(
            shown,
            pending=c.PendingKey(
                public_key=pending.public_line,
                fingerprint=pending.fingerprint,
                lacking=Rotation(self._store, self._fleet).lacking(pending.fingerprint),
            ),
        )

    def _schedule(self, schedule: Schedule) -> Schedule:
        named(schedule.name, "schedule")
        when = cron.parse(schedule.cron, schedule.zone)
        self._work(schedule.work)
        return msgspec.structs.replace(schedule, cron=when.text, zone=when.zone)

    def _work(self, work: Work) -> None:
        """What is wrong with it from the start; what its target is worth is judged at each fire."""
        if (work.playbook is None) == (work.kind == "play"):
            raise WrongUsage(f"an {work.kind} takes no playbook" if work.playbook else "a play needs a playbook")
        if work.kind != "play":
            workspaces.get(self._store, work.target)
        elif not (inventories.find(self._store, work.target) or targets.workspace_of(self._store, work.target)):
            raise targets.absent(self._store, work.target)
        if work.key is not None and not (work.key.strip() and work.key.isprintable()):
            raise WrongUsage(f"--concurrency-key {work.key!r} names nothing")
        self._flags(order_of(work))

    async def _start(self, command: c.StartWorkflow) -> None:
        if command.kind == "rotate":
            raise WrongUsage("a rotation is of the whole fleet", hint="exocomp fleet-key rotate")
        self._flags(command)
        if command.kind == "play" and command.inventory is not None and command.options.limit is not None:
            await self._limits.check(command.inventory, command.options.limit)

    def _flags(self, command: c.StartWorkflow) -> None:
        if command.options.require_approval and command.kind not in GATED:
            raise WrongUsage(f"--require-approval: a {command.kind} applies no plan", hint="leave it out")
        if command.options.allow_destroy and command.kind != "apply":
            raise WrongUsage(f"--allow-destroy is for an apply, not for a {command.kind}", hint="leave it out")
        for playbook in (command.playbook, command.options.onboard_playbook):
            if playbook is not None:
                regular_file(Path(playbook), "playbook")
        check_play(command.options.ssh_identities, command.options.egress, self._layout.root)
        for flag in ("limit", "tags", "skip_tags"):
            value = getattr(command.options, flag)
            if value is not None and not value.strip(" ,:"):
                # Ansible takes an empty one as none: a variable left empty in a script would widen the run to all.
                raise WrongUsage(
                    f"--{flag.replace('_', '-')} {value!r} names nothing", hint="leave it out, or name one"
                )
        if not command.options.ssh_wait_s > 0:
            raise WrongUsage(f"--ssh-wait must be above zero, not {command.options.ssh_wait_s}")


def named(name: str, what: str) -> None:
    """Raises WrongUsage for a name that could not be typed or shown."""
    if not _NAME.fullmatch(name):
        hint = "letters, digits, dot, dash and underscore, at most 64, a letter or digit first"
        raise WrongUsage(f"{what} name {name!r} is not usable", hint=hint)


def check_play(identities: tuple[str, ...], egress: tuple[int, ...], data_dir: Path) -> None:
    """Raises ExocompError for a key file that is none or that ssh would pass over, WrongUsage for a number that is no
    TCP port."""
    for identity in identities:
        regular_file(Path(identity), "--ssh-identity")
        pinned_ssh.identity(identity, outside=data_dir)
    check_ports(egress)


def check_ports(ports: tuple[int, ...]) -> None:
    """Raises WrongUsage for a number that is no TCP port."""
    for port in ports:
        if not 1 <= port <= 65535:
            raise WrongUsage(f"--egress {port} is not a TCP port", hint="a number from 1 to 65535")


def regular_file(path: Path, what: str) -> None:
    """Raises WrongUsage unless `path` is absolute and names one readable regular file."""
    if not path.is_absolute():
        raise WrongUsage(f"{what} {path} is not an absolute path")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise WrongUsage(f"{what} {path}: {error.strerror}", hint="the daemon must be able to read it") from None
    except ValueError:
        raise WrongUsage(f"{what} {str(path)!r} is no path") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise WrongUsage(f"{what} {path} is not a regular file")
    finally:
        os.close(descriptor)
