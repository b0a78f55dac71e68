"""One line of text for each event and each line of progress; pure."""

from __future__ import annotations

from datetime import tzinfo

from exocomp.cli.render import clean, clock, color_of, duration, moment, paint
from exocomp.protocol import approving as a
from exocomp.protocol import events as e
from exocomp.protocol import fired as f
from exocomp.protocol.jobs import Progress


def event_line(recorded: e.Recorded, *, color: bool = False, zone: tzinfo | None = None, dated: bool = False) -> str:
    """`12:00:03  apply      running  job_…`, with date and offset if `dated`."""
    subject, state, rest = _words(recorded.event)
    at = moment(recorded.at, zone) if dated else clock(recorded.at, zone)
    return _line(at, subject, state, rest, color)


def progress_line(
    step: str, progress: Progress, at: float, *, color: bool = False, zone: tzinfo | None = None
) -> str:
    """One resource of an apply, or one task on one host."""
    rest = " · ".join(part for part in (progress.what, progress.detail) if part)
    if progress.elapsed_s is not None:
        rest += f" ({duration(progress.elapsed_s)})"
    state = "" if progress.state == "plain" else progress.state
    return _line(clock(at, zone), step, state, " ".join(filter(None, (progress.subject, rest))), color)


def _line(time: str, subject: str, state: str, rest: str, color: bool) -> str:
    shown = paint(state.ljust(11), color_of(state), color)
    return f"{paint(time, 'dim', color)}  {clean(subject).ljust(10)} {shown} {clean(rest)}".rstrip()


def _words(event: e.AnyEvent) -> tuple[str, str, str]:
    """Subject, what became of it, the rest."""
    match event:
        case e.StepMoved():
            of = f"{event.job or ''}{f' attempt {event.attempt}' if (event.attempt or 0) > 1 else ''}"
            return event.step, event.new, _because(event.reason, event.hint) or (of if event.new == "running" else "")
        case e.StepQueued():
            return event.step, "queued", f"behind {event.behind}"
        case e.WorkflowStarted():
            target = event.inventory if event.kind == "play" else event.workspace
            on = " with ".join(filter(None, (target, event.playbook)))
            by = f" by {event.origin}" if event.origin else ""
            return event.kind, "started", f"{event.workflow} on {on}: {' → '.join(event.steps)}{by}"
        case e.WorkflowEnded():
            return (
                "workflow",
                event.state,
                " ".join(filter(None, (event.workflow, _because(event.reason, event.hint)))),
            )
        case e.WorkflowRetried():
            return "workflow", "retried", f"{event.workflow} from {event.from_step}"
        case e.CancelRequested():
            return "workflow", "cancelling", event.workflow or ""
        case e.AttemptAdopted():
            return event.step, "adopted", f"{event.job} attempt {event.attempt}"
        case e.AttemptLost():
            return event.step, "lost", f"{event.job} attempt {event.attempt} {_because(event.reason, '')}".rstrip()
        case _:
            return _more_words(event)


def _more_words(event: e.AnyEvent) -> tuple[str, str, str]:
    match event:
        case a.ApprovalAsked():
            return event.step, "asks", f"{event.summary}: exocomp approval show {event.approval}"
        case a.ApprovalDecided():
            by = f" by {event.by}" if event.by else ""
            why = f": {event.reason}" if event.reason else ""
            return "approval", "approved" if event.approved else "rejected", f"{event.approval}{by}{why}"
        case a.ApprovalVoided():
            return "approval", "void", f"{event.approval}: {event.reason}"
        case e.HostAnswered():
            where = f"{event.address} port {event.port} after {duration(event.after_s)}"
            return "wait", "answered", " ".join(filter(None, (event.host, "at", where, event.banner)))
        case e.HostPinned():
            return "pin", "pinned", f"{event.name} {event.key_type} {event.fingerprint} ({event.trust})"
        case e.HostKeyRefused():
            was, offered = ", ".join(event.recorded) or "nothing", ", ".join(event.offered) or "nothing"
            return "pin", "refused", f"{event.host} ({event.name}): recorded {was}; offered {offered}"
        case e.PinForgotten():
            return "pin", "forgotten", event.name
        case e.FleetKeyRotated():
            return "fleet-key", "rotated", f"{event.fingerprint} replaces {event.replaced}"
        case e.OutputsCaptured():
            return "capture", "changed" if event.changed else "ok", event.message
        case e.HostJoined():
            return "inventory", "joined", f"{event.host} in {event.inventory}"
        case e.HostLeft():
            return "inventory", "left", f"{event.host} of {event.inventory}"
        case e.ContentVendored():
            return "vendor", "changed", ", ".join(event.entries) or "nothing"
        case e.WorkspaceAdded():
            return "workspace", "added", f"{event.workspace} {event.directory}"
        case e.WorkspaceRemoved():
            return "workspace", "removed", event.workspace or ""
        case e.DaemonStarted():
            running = f", {event.running} job(s) running" if event.running else ""
            return "daemon", "started", f"{event.version}, sandbox {event.sandbox}{running}"
        case e.DaemonStopped():
            return "daemon", "stopped", f"{event.running} job(s) running on" if event.running else ""
        case _:
            return _words_of_triggers(event)


def _words_of_triggers(event: e.AnyEvent) -> tuple[str, str, str]:
    """What stands ready to start something, and what came of it."""
    match event:
        case e.InventoryAdded():
            content = f"{event.inventory} generation {event.generation} naming {event.hosts} host(s)"
            return "inventory", "added" if event.changed else "ok", content
        case e.InventoryRemoved():
            return "inventory", "removed", event.inventory
        case f.ScheduleAdded():
            return "schedule", "added", f"{event.schedule} at {event.cron} {event.zone} on {event.target}"
        case f.ScheduleRemoved():
            return "schedule", "removed", event.schedule
        case f.SchedulePaused():
            return "schedule", "paused", event.schedule
        case f.ScheduleResumed():
            return "schedule", "resumed", event.schedule
        case f.ScheduleFired():
            return "schedule", event.outcome, f"{event.workflow} by {event.schedule}{_due(event.due_at)}"
        case f.ScheduleSkipped():
            return "schedule", event.outcome, f"{event.schedule}{_due(event.due_at)}: {event.reason}"
        case f.ScheduleRefused():
            why = _because(event.reason, event.hint)
            return "schedule", "refused", f"{event.schedule}{_due(event.due_at)} started nothing: {why}"
        case f.RuleAdded():
            return "rule", "added", f"{event.rule} on {event.on}, for {event.target}"
        case f.RuleRemoved():
            return "rule", "removed", event.rule
        case f.RuleEnabled():
            return "rule", "enabled", event.rule
        case f.RuleDisabled():
            return "rule", "disabled", event.rule
        case f.RuleFired():
            return "rule", event.outcome, f"{event.workflow} by {event.rule} for event {event.event}"
        case f.RuleSkipped():
            return "rule", "skipped", f"{event.rule} for event {event.event}: {event.reason}"
        case f.RuleRefused():
            why = _because(event.reason, event.hint)
            return "rule", "refused", f"{event.rule} for event {event.event} started nothing: {why}"
        case _:
            return type(event).__name__, "", ""


def _due(at: float | None) -> str:
    return " by hand" if at is None else f" due {moment(at)}"


def _because(reason: str, hint: str) -> str:
    return f"{reason} ({hint})" if reason and hint else reason
