"""Judges a history of events: what a daemon that was killed and started again may never have done."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from exocomp.model import MOVES, RunState, StepState
from exocomp.protocol.events import Recorded, StepMoved, WorkflowEnded, WorkflowRetried, WorkflowStarted


def faults(events: Sequence[Recorded]) -> list[str]:
    """Every breach of the ledger's promises, in words; empty for a sound history."""
    found = [
        f"event {right.seq} follows {left.seq}"
        for left, right in itertools.pairwise(events)
        if right.seq != left.seq + 1
    ]
    if events and events[0].seq != 1:
        found.append(f"the first event is {events[0].seq}")
    flows = {each.event.workflow: each.event for each in events if isinstance(each.event, WorkflowStarted)}
    for id, started in flows.items():
        of = [each for each in events if each.event.workflow == id]
        found += [f"{id}: {fault}" for fault in _faults_of(started.steps, of)]
    return found


def _faults_of(steps: Sequence[str], events: Sequence[Recorded]) -> list[str]:
    found = []
    states = {name: StepState.BLOCKED for name in steps}
    states[steps[0]] = StepState.READY
    runs: set[tuple[str | None, int | None]] = set()
    ended = 0
    for each in events:
        match each.event:
            case StepMoved() as move:
                found += _move_faults(steps, states, move)
                if move.new is StepState.RUNNING:
                    if (move.job, move.attempt) in runs:
                        found.append(f"attempt {move.attempt} of {move.job} ({move.step}) was started twice")
                    runs.add((move.job, move.attempt))
                states[move.step] = move.new
            case WorkflowRetried():
                ended -= 1
            case WorkflowEnded(state=state):
                ended += 1
                lacking = [name for name in steps if states[name] is not StepState.SUCCEEDED]
                if state is RunState.SUCCEEDED and lacking:
                    found.append(f"it succeeded without {', '.join(lacking)}")
    if ended > 1:
        found.append(f"it ended {ended} times")
    return found


def _move_faults(steps: Sequence[str], states: dict[str, StepState], move: StepMoved) -> list[str]:
    found = []
    if move.step not in states:
        return [f"{move.step} is none of its steps"]
    if states[move.step] is not move.old:
        found.append(f"{move.step} moved from {move.old} while it was {states[move.step]}")
    if move.new not in MOVES[move.old]:
        found.append(f"{move.step} moved from {move.old} to {move.new}")
    if move.new is StepState.RUNNING:
        earlier = steps[: steps.index(move.step)]
        skipped = [name for name in earlier if states[name] is not StepState.SUCCEEDED]
        if skipped:
            found.append(f"{move.step} ran before {', '.join(skipped)} succeeded")
    return found


def successes(events: Sequence[Recorded], step: str) -> int:
    """How often a step of any workflow succeeded after it had run."""
    return sum(
        isinstance(each.event, StepMoved)
        and each.event.step == step
        and each.event.old is StepState.RUNNING
        and each.event.new is StepState.SUCCEEDED
        for each in events
    )
