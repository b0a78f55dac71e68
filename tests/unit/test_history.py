"""The judge of histories finds what it is there to find."""

from __future__ import annotations

import pytest

from exocomp.model import RunState, StepState
from exocomp.protocol.events import AnyEvent, Recorded, StepMoved, WorkflowEnded, WorkflowStarted
from tests.lab.history import faults, successes

STATES = {"b": StepState.BLOCKED, "r": StepState.READY, "x": StepState.RUNNING, "s": StepState.SUCCEEDED}


def history(*told: str, ended: bool = True) -> list[Recorded]:
    """Each word is STEP:OLD>NEW, with /ATTEMPT where it is not the first."""
    events: list[AnyEvent] = [WorkflowStarted(workflow="wf_1", kind="handoff", steps=("apply", "configure"))]
    for word in told:
        move, _, attempt = word.partition("/")
        step, _, states = move.partition(":")
        old, _, new = states.partition(">")
        events.append(
            StepMoved(
                workflow="wf_1",
                step=step,
                stage=step,
                old=STATES[old],
                new=STATES[new],
                job=f"job_{step}",
                attempt=int(attempt or 1),
            )
        )
    if ended:
        events.append(WorkflowEnded(workflow="wf_1", state=RunState.SUCCEEDED))
    return [Recorded(seq=seq, at=0.0, event=event) for seq, event in enumerate(events, 1)]


SOUND = ("apply:r>x", "apply:x>s", "configure:b>r", "configure:r>x", "configure:x>s")


def test_a_sound_history_has_no_fault() -> None:
    assert faults(history(*SOUND)) == []
    assert successes(history(*SOUND), "configure") == 1


def test_a_lost_attempt_that_runs_again_is_sound() -> None:
    assert faults(history("apply:r>x", "apply:x>r", "apply:r>x/2", "apply:x>s/2", *SOUND[2:])) == []


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        (SOUND[2:], "configure ran before apply succeeded"),
        (SOUND[:3], "it succeeded without configure"),
        ((*SOUND[:2], "apply:s>r", "apply:r>x", *SOUND[1:]), "attempt 1 of job_apply (apply) was started twice"),
        (("apply:r>s", "apply:x>s", *SOUND[2:]), "apply moved from running while it was succeeded"),
        (("apply:r>x", "apply:x>b", *SOUND), "apply moved from running to blocked"),
    ],
)
def test_a_breach_is_found(told: tuple[str, ...], fault: str) -> None:
    assert any(fault in found for found in faults(history(*told)))


def test_a_gap_in_the_numbers_is_found() -> None:
    events = history(*SOUND)
    assert any("follows" in found for found in faults([*events[:3], *events[4:]]))
    assert any("first event" in found for found in faults(events[1:]))
