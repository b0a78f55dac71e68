"""What the verbs of several nouns share: start a workflow, name it, watch it."""

from __future__ import annotations

from exocomp.cli import doing, output
from exocomp.cli.options import Common
from exocomp.errors import WrongUsage
from exocomp.protocol.commands import RetryWorkflow, RunSchedule, Started, StartWorkflow

Begins = StartWorkflow | RetryWorkflow | RunSchedule


def begin(common: Common, command: Begins, *, wait: bool, block: bool = True) -> int:
    """Without `wait` print the workflow's id on stdout and how to follow it on stderr; with it, watch to the end,
    or without `block` to a question."""
    if wait:
        return watch(common, command, block=block)
    if not block:
        raise WrongUsage("--no-block is for --wait", hint="without --wait nothing blocks")
    started = doing.do(common, command, Started)
    output.emit(common, started, started.workflow)
    if not common.as_json:
        output.note(f"watch it: exocomp provision watch {started.workflow}")
        output.note(f"its ledger: exocomp provision status {started.workflow}")
    return 0


def watch(common: Common, command: Begins | None, id: str = "", *, block: bool = True) -> int:
    from exocomp.cli import live

    return live.watch(common, id=id, command=command, block=block)
