"""Answers as text: the ledger view of a workflow and a view of each noun; pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from exocomp.cli.render import BAD, clean, color_of, duration, facts, moment, paint, table
from exocomp.model import ENDED, Pin, RunState, StepState, Workflow
from exocomp.protocol import queries as q
from exocomp.protocol.jobs import Job

HOSTS_SHOWN = 20


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One displayed row: a stage's steps taken together."""

    name: str
    state: StepState
    steps: tuple[q.StepView, ...]
    attempts: int
    job: str | None
    started_at: float | None
    ended_at: float | None
    reason: str
    hint: str
    hosts: tuple[q.HostResult, ...]


def stages(view: q.WorkflowView) -> tuple[Stage, ...]:
    """The rows of the ledger view; a stage is as far as its first step that has not succeeded."""
    names = dict.fromkeys(step.step.stage for step in view.steps)
    return tuple(_stage(name, tuple(s for s in view.steps if s.step.stage == name)) for name in names)


def _stage(name: str, steps: tuple[q.StepView, ...]) -> Stage:
    at = next((s for s in steps if s.step.state != StepState.SUCCEEDED), steps[-1])
    state = at.step.state
    if state == StepState.BLOCKED and any(s.step.state == StepState.SUCCEEDED for s in steps):
        state = StepState.READY
    hosts = {host.host: host for step in steps for host in step.hosts}
    started = [s.step.started_at for s in steps if s.step.started_at is not None]
    return Stage(
        name=name,
        state=state,
        steps=steps,
        attempts=max(s.attempts for s in steps),
        job=at.step.job or next((s.step.job for s in reversed(steps) if s.step.job), None),
        started_at=min(started, default=None),
        ended_at=at.step.ended_at if state in ENDED else None,
        reason=at.step.reason,
        hint=at.step.hint,
        hosts=tuple(hosts.values()),
    )


def took(started_at: float | None, ended_at: float | None, now: float) -> str:
    return "" if started_at is None else duration((ended_at if ended_at is not None else now) - started_at)


def ledger(view: q.WorkflowView, *, now: float, width: int | None = None, color: bool = False) -> str:
    """The ledger view: a row a stage with state, attempts, job and duration, and the hosts inside."""
    flow = view.workflow
    state = paint(flow.state, color_of(flow.state), color)
    on = " ".join(filter(None, (target(flow), flow.playbook)))
    began = f"started {moment(flow.created_at)}, {took(flow.created_at, flow.ended_at, now)}"
    out = [f"{flow.kind} {flow.id}  {clean(on)}", f"{state}  {began}"]
    if view.generation is not None:
        out[-1] += f"  inventory {clean(flow.inventory or f'tf:{flow.workspace}')} generation {view.generation}"
    out[-1] += "".join(f"  {clean(words)}" for words in _ordered_by(view))
    if tiers := sorted({step.tier.value for step in view.steps if step.tier is not None}):
        out[-1] += f"  sandbox {', '.join(tiers)}"
    rows = stages(view)
    body = table(
        ("STEP", "STATE", "TRIES", "JOB", "TOOK"),
        [(s.name, s.state, str(s.attempts or ""), s.job or "", took(s.started_at, s.ended_at, now)) for s in rows],
        width=width,
        color=color,
    ).splitlines()
    out += ["", body[0]]
    for stage, line in zip(rows, body[1:], strict=True):
        out.append(line)
        out += _inside(stage, color)
    if flow.reason and not any(stage.reason for stage in rows):
        out += ["", *why(flow.reason, flow.hint, color)]
    return "\n".join(out + _next(flow, rows))


def target(flow: Workflow) -> str:
    """What a person named: the inventory of a play, the workspace of a chain."""
    return (flow.inventory if flow.kind == "play" else flow.workspace) or ""


def _ordered_by(view: q.WorkflowView) -> list[str]:
    """What started it and what it has to wait for, when that is more than a person."""
    flow = view.workflow
    words = [f"by {flow.origin}"] if flow.origin else []
    words += [f"key {flow.key}"] if flow.key and flow.key != flow.origin else []
    return [*words, "queued behind the one of its key that runs"] if is_queued(view) else words


def is_queued(view: q.WorkflowView) -> bool:
    """It holds a place in its key's queue, and has not begun."""
    flow = view.workflow
    begun = any(each.attempts or each.step.state not in (StepState.READY, StepState.BLOCKED) for each in view.steps)
    return flow.key is not None and flow.state == RunState.RUNNING and not begun


def _next(flow: Workflow, rows: Sequence[Stage]) -> list[str]:
    """The commands that a person needs after a failure."""
    failed = next((stage for stage in rows if stage.state == StepState.FAILED), None)
    if failed is None or flow.state != RunState.FAILED:
        return []
    step = next(s for s in failed.steps if s.step.state == StepState.FAILED)
    # A wait and a scan run no tool, in no sandbox, and write no log.
    log = [f"its log: exocomp provision logs {flow.id} --step {step.step.name}"] if step.tier else []
    told = "provision retry" in failed.hint or not flow.playbook
    again = [] if told else [f"once mended: exocomp provision retry {flow.id}"]
    return ["", *log, *again]


def _inside(stage: Stage, color: bool) -> list[str]:
    # Trouble first, so that a long list never hides it.
    hosts = sorted(stage.hosts, key=lambda host: host.outcome not in BAD)
    out = [host_line(host, color=color) for host in hosts[:HOSTS_SHOWN]]
    if len(hosts) > HOSTS_SHOWN:
        out.append(f"    and {len(hosts) - HOSTS_SHOWN} more host(s)")
    return out + [f"    {line}" for line in why(stage.reason, stage.hint, color)]


def why(reason: str, hint: str, color: bool) -> list[str]:
    """A reason and what to do about it, a line each."""
    words = [paint(clean(reason), "red", color)] if reason else []
    return words + ([f"hint: {clean(hint)}"] if hint else [])


def host_line(host: q.HostResult, *, color: bool = False) -> str:
    counts = ((n, getattr(host, n)) for n in ("ok", "changed", "failed", "unreachable"))
    told = " ".join(f"{name}={count}" for name, count in counts if count)
    rest = " ".join(filter(None, (told, clean(host.detail))))
    return f"    {clean(host.host)}  {paint(host.outcome, color_of(host.outcome), color)}  {rest}".rstrip()


def workflow_rows(workflows: Sequence[q.WorkflowView], *, now: float, width: int | None, color: bool) -> str:
    """The column BY is there when something other than a person started one of them."""
    by = any(v.workflow.origin for v in workflows)
    rows = [
        (
            v.workflow.id,
            v.workflow.kind,
            v.workflow.state,
            "queued" if is_queued(v) else _where(v),
            target(v.workflow),
            Path(v.workflow.playbook).name if v.workflow.playbook else "",
            moment(v.workflow.created_at),
            took(v.workflow.created_at, v.workflow.ended_at, now),
            *((v.workflow.origin,) if by else ()),
        )
        for v in workflows
    ]
    head = ("ID", "KIND", "STATE", "AT", "TARGET", "PLAYBOOK", "STARTED", "TOOK", *(("BY",) if by else ()))
    return table(head, rows, width=width, color=color)


def _where(view: q.WorkflowView) -> str:
    return next((s.name for s in stages(view) if s.state != StepState.SUCCEEDED), "")


def workspace_rows(spaces: Sequence[q.WorkspaceView], *, width: int | None, color: bool) -> str:
    rows = [
        (
            v.workspace.name,
            v.last_apply.state if v.last_apply else "",
            "" if v.hosts is None else str(v.hosts),
            v.workspace.engine or "",
            v.workspace.directory,
        )
        for v in spaces
    ]
    head = ("NAME", "LAST APPLY", "HOSTS", "ENGINE", "DIRECTORY")
    return table(head, rows, width=width, color=color, colored="LAST APPLY")


def workspace(view: q.WorkspaceView) -> str:
    space = view.workspace
    return facts(
        [
            ("name", space.name),
            ("directory", space.directory),
            ("root", space.root if space.root != space.directory else ""),
            ("engine", space.engine or "tofu when present, else terraform"),
            ("var files", ", ".join(space.var_files)),
            ("variables", ", ".join(space.variables)),
            ("egress", ", ".join(map(str, space.egress))),
            ("inventory", _standing(view)),
            ("last apply", _last(view.last_apply)),
        ]
    )


def _standing(view: q.WorkspaceView) -> str:
    if view.generation is None:
        return "none yet: it comes with the first apply"
    return f"tf:{view.workspace.name} generation {view.generation}, {view.hosts} host(s)"


def _last(flow: Workflow | None) -> str:
    return f"{flow.id} {flow.state} {moment(flow.created_at)}" if flow else "never"


def job_rows(jobs: Sequence[Job], *, now: float, width: int | None, color: bool) -> str:
    rows = [
        (j.id, j.kind, j.state, j.step, j.workflow, str(j.attempt), took(j.created_at, j.ended_at, now)) for j in jobs
    ]
    return table(("ID", "KIND", "STATE", "STEP", "WORKFLOW", "TRIES", "TOOK"), rows, width=width, color=color)


def job(view: q.JobView, *, now: float, width: int | None, color: bool) -> str:
    one = view.job
    said = facts(
        [
            ("job", one.id),
            ("kind", one.kind),
            ("state", one.state),
            ("workflow", f"{one.workflow} step {one.step}"),
            ("key", one.key or ""),
            ("started", moment(one.created_at)),
            ("took", took(one.created_at, one.ended_at, now)),
            ("reason", one.reason),
            ("hint", one.hint),
            ("directory", view.directory),
        ]
    )
    tries = [
        (
            str(a.number),
            a.state,
            moment(a.started_at),
            took(a.started_at, a.ended_at, now),
            "" if a.exit_code is None else str(a.exit_code),
            a.tier or "",
            (a.source or "")[:12] + (f" at {a.commit[:12]}" if a.commit else ""),
        )
        for a in view.attempts
    ]
    out = [
        said,
        "",
        table(("TRY", "STATE", "STARTED", "TOOK", "EXIT", "SANDBOX", "SOURCE"), tries, width=width, color=color),
    ]
    out += [host_line(host, color=color) for host in view.hosts]
    return "\n".join(out)


def pin_rows(pins: Sequence[Pin], *, width: int | None) -> str:
    rows = [(p.name, p.key_type, p.fingerprint, p.trust, moment(p.pinned_at), p.workflow or "") for p in pins]
    return table(("NAME", "TYPE", "FINGERPRINT", "TRUST", "PINNED", "BY"), rows, width=width)
