"""The outcome of a tofu attempt: the verdict, the counted changes, the outputs; and what must not stay behind."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

from exocomp.approval import Gate
from exocomp.drivers.tofu import diagnostics, marks, order, progress, variables
from exocomp.drivers.tofu.diagnostics import Reading
from exocomp.drivers.tofu.files import read_record
from exocomp.drivers.tofu.reasons import explain
from exocomp.errors import ExocompError
from exocomp.model import Exit, Output, Verdict
from exocomp.protocol.jobs import TofuJob, Verb

_ABSENT = (126, 127)
_OUTPUT_LOST = 74  # EX_IOERR: the command may have succeeded, but what it printed could not be kept
_LAST = {Verb.PLAN: "plan", Verb.APPLY: "state-after", Verb.DESTROY: "state-after"}


def judge(job: TofuJob, exit: Exit, attempt: Path) -> Verdict:
    """Succeeded only when the last command of the verb ended with 0, or at the gate; any other end is told by its
    diagnostics."""
    if (exit.code == 0 and exit.command == _LAST[job.verb]) or is_at_gate(job, exit):
        return Verdict(ok=True)
    reading = diagnostics.read_log(attempt / "log")
    if exit.cancelled or exit.timed_out:
        cause = "timed out" if exit.timed_out else "cancelled"
        hint = "; raise the setting job_timeout_s if it needs longer" if exit.timed_out else ""
        done = _done_before(reading)
        next_step = "nothing was changed"
        if exit.command == "apply":
            next_step = "run it again: what was under way may be half done, and what is done is not repeated"
        elif done:
            next_step = "run it again: what is done is not repeated"
        reason = f"{job.verb} {cause} during {_phase(exit)}{done}"
        return Verdict(ok=False, reason=reason, hint=f"{next_step}{hint}")
    reason, hint = _failure(exit, reading)
    done = _done_before(reading)
    if exit.command == "apply" and done:
        hint = f"{hint}; " if hint else ""
        hint = f"{hint}once mended, run it again: what is done is not repeated"
    return Verdict(ok=False, reason=f"{_phase(exit)} failed{done}: {reason}", hint=hint or "see the job's log")


def is_at_gate(job: TofuJob, exit: Exit) -> bool:
    """It has planned, and applies nothing before a person decided."""
    if job.gate is Gate.ALWAYS:
        return exit.code == 0 and exit.command == "show"
    return job.gate is Gate.DESTROYS and exit.code == marks.CLOSED and exit.command == "gate"


def moved(attempt: Path) -> bool:
    """Whether the state is another one than before the apply, as far as can be told."""
    before, after = read_record(attempt / order.BEFORE), read_record(attempt / order.AFTER)
    return not before or before != after


def changes(attempt: Path) -> tuple[int, int, int]:
    """(adds, changes, destroys) of the plan, a replacement counting as add and destroy; zeros without a plan."""
    planned = [s for s in diagnostics.read_log(attempt / "log").summaries if s[0] in ("plan", "destroy")]
    return planned[0][1:] if planned else (0, 0, 0)


def outputs(attempt: Path) -> dict[str, Output]:
    """The outputs after a successful apply, integers exact; raises ExocompError with the first line of no JSON."""
    text = (attempt / order.OUTPUTS).read_text("utf-8", "replace")
    try:
        parsed = json.loads(text)
        return {name: _output(declared) for name, declared in parsed.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        first = progress.strip(text.strip().partition("\n")[0])[:120]
        shown = "" if text.lstrip().startswith("{") else f", but {first!r}"
        raise ExocompError(
            f"`output -json` printed no outputs{shown}",
            hint="is the engine a wrapper that prints on stdout? name the real binary with --engine",
        ) from None


def tidy(attempt: Path) -> None:
    """Remove what may hold secrets: the plan, outputs and variables."""
    plan = attempt / order.PLAN
    try:
        plan.unlink(missing_ok=True)
    except OSError:  # it lies where the job writes, which can make anything of it
        shutil.rmtree(plan.parent, ignore_errors=True)
    for name in (order.SHOWN, order.OUTPUTS):
        (attempt / name).unlink(missing_ok=True)
    for file in attempt.glob(f"{variables.PREFIX}*"):
        file.unlink(missing_ok=True)


def _output(declared: dict[str, Any]) -> Output:
    return Output(value=declared["value"], sensitive=bool(declared.get("sensitive", False)))


def _failure(exit: Exit, reading: Reading) -> tuple[str, str]:
    if reading.problems:
        return explain(reading.problems)
    if exit.code in _ABSENT:
        return "the engine could not be started", "is it still installed? see the job's log"
    if exit.code == _OUTPUT_LOST:
        return "the disk did not take its output", "free space in the data dir, then run it again"
    if exit.code < 0:
        name = signal.Signals(-exit.code).name if -exit.code in set(signal.Signals) else f"signal {-exit.code}"
        return (
            f"it was killed by {name}",
            "the state may lack what it was doing then: look at the plan of the next run",
        )
    return f"exit {exit.code}" + (f": {reading.last_line}" if reading.last_line else ""), ""


def _phase(exit: Exit) -> str:
    return {"state": "reading the state", "output": "reading the outputs"}.get(
        exit.command, exit.command or "preparation"
    )


def _done_before(reading: Reading) -> str:
    if not reading.changed:
        return ""
    return f" after {reading.changed} resource{'s were' if reading.changed > 1 else ' was'} changed"
