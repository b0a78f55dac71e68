"""The verdict on an ended play: exit code and recap are reconciled, for either alone can say success wrongly."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from exocomp.drivers.ansible import hints, record
from exocomp.model import Exit, Verdict
from exocomp.protocol.jobs import PlayJob
from exocomp.protocol.queries import HostResult

_TAIL = 64 * 1024
_ERROR = re.compile(r"^(?:\[ERROR\]:|ERROR!|ERROR:|exocomp:|ansible-playbook: error:)\s*(.+)$")
_UNSIGNED = re.compile(r"signing failed for .* from agent")
_REFUSED = re.compile(r"^exocomp agent: (refused .+)$")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def judge(job: PlayJob, exit: Exit, attempt: Path) -> tuple[Verdict, tuple[HostResult, ...]]:
    """Success is exit code 0, and every host that a task was due on is in the recap without a fault, and,
    unless the inventory is empty, at least one host was matched. Reads the callback's record and the log's end."""
    story = record.read(attempt)
    results = tuple(_result(host, story) for host in story.hosts)
    if exit.cancelled:
        return Verdict(ok=False, reason="the play was cancelled"), results
    if exit.timed_out:
        late = Verdict(ok=False, reason=f"the play did not end in time{_where(story)}", hint="see the job's log")
        return late, results
    bad = [result for result in results if result.failed or result.unreachable]
    if bad:
        return _faults(bad, len(story.matched | set(story.hosts)), story, attempt), results
    if exit.code != 0:
        return _broken(exit, attempt), results
    return _silent(job, story), results


def _result(host: str, story: record.Story) -> HostResult:
    counts, fault = story.counts(host), story.faults.get(host)
    outcome = next((name for name in ("unreachable", "failed", "changed", "ok") if getattr(counts, name)), "skipped")
    told = fault is not None and outcome in ("unreachable", "failed")
    return HostResult(
        host=host,
        outcome=outcome,
        detail=f"{fault.task}: {fault.msg}" if told and fault else "",
        ok=counts.ok,
        changed=counts.changed,
        failed=counts.failed,
        unreachable=counts.unreachable,
    )


def _faults(bad: list[HostResult], hosts: int, story: record.Story, attempt: Path) -> Verdict:
    # An unreachable host stops a rollout for a reason outside of the play, so it is told first.
    first = min(bad, key=lambda result: (result.outcome != "unreachable", result.host))
    fault = story.faults.get(first.host)
    said = fault.msg if fault else ""
    if _UNSIGNED.search(said) and (refusal := _last(_REFUSED, attempt / "log")):
        said = f"{said} (the agent of the fleet key {refusal})"
    what = {"unreachable": "unreachable", "failed": "failed"}[first.outcome]
    at = f" at task {fault.task!r}" if fault else ""
    others = f" ({len(bad)} of {hosts} hosts failed or were unreachable)" if hosts > 1 else ""
    return Verdict(
        ok=False,
        reason=f"host {first.host} {'was ' * (what == 'unreachable')}{what}{at}{': ' * bool(said)}{said}{others}",
        hint=hints.of(said, host=first.host) or "see the job's log, correct the cause, then retry",
    )


def _broken(exit: Exit, attempt: Path) -> Verdict:
    if exit.code < 0:
        name = signal.Signals(-exit.code).name if -exit.code in set(signal.Signals) else str(-exit.code)
        return Verdict(
            ok=False, reason=f"ansible-playbook was killed by {name}", hint="look for what kills processes (memory?)"
        )
    error = _last(_ERROR, attempt / "log")
    if not error:
        return Verdict(ok=False, reason=f"ansible-playbook exited with code {exit.code}", hint="see the job's log")
    return Verdict(
        ok=False,
        reason=f"ansible-playbook exited with code {exit.code}: {error}",
        hint=hints.of(error) or "see the job's log",
    )


def _silent(job: PlayJob, story: record.Story) -> Verdict:
    """The verdict on exit code 0 without a fault: what was not done?"""
    if not story.ended:
        return Verdict(
            ok=False,
            reason="ansible-playbook exited with code 0, but no record says that the playbook came to its end",
            hint="see the job's log; the disk of the data dir may be full",
        )
    known = {host.name for host in job.generation.hosts}
    count = f"{len(known)} host{'s' * (len(known) != 1)}"
    if known and story.unmatched and not known & story.matched:
        patterns = ", ".join(repr(pattern) for pattern in dict.fromkeys(story.unmatched))
        limit = f" within --limit {job.limit!r}" if job.limit else ""
        return Verdict(
            ok=False,
            reason=f"no host of inventory {job.generation.inventory} ({count}) matches {patterns}{limit}, "
            "so nothing was run",
            hint=f"compare the plays' `hosts:` with the groups of exocomp inventory show {job.generation.inventory}",
        )
    if known and not story.recaps:
        chosen = " with these tags" if job.tags or job.skip_tags else ""
        return Verdict(
            ok=False,
            reason=f"no task ran on any host{chosen}",
            hint="see which tags and tasks the playbook has" if chosen else "see what tasks the playbook has",
        )
    if missing := sorted(story.due - story.recaps.keys()):
        return Verdict(
            ok=False,
            reason=f"{len(missing)} host(s) were matched but are missing from the recap: {', '.join(missing[:10])}",
            hint="see the job's log for what ended the play early",
        )
    return Verdict(ok=True)


def _where(story: record.Story) -> str:
    last = next(reversed(story.faults.values()), None)
    return f", last fault on {last.host} at task {last.task!r}" if last else ""


def _last(line_like: re.Pattern[str], log: Path) -> str:
    """What the last such line tells near the log's end; "" without one."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        lines = _COLOUR.sub("", file.read().decode("utf-8", "replace")).splitlines()
    told = [found.group(1).strip() for line in lines if (found := line_like.match(line.strip()))]
    return told[-1][:400] if told else ""
