"""The wire: what is sent is what arrives, and what does not fit is refused by name."""

from __future__ import annotations

import pytest

from exocomp.errors import Conflict, WrongUsage
from exocomp.model import StepState
from exocomp.protocol import codec
from exocomp.protocol.commands import StartWorkflow
from exocomp.protocol.events import Recorded, StepMoved
from exocomp.protocol.queries import ShowWorkflow


@pytest.mark.parametrize(
    "frame",
    [
        codec.Hello(version="1", since=3),
        codec.Do(id=1, command=StartWorkflow(kind="provision", workspace="edge", playbook="/p.yml")),
        codec.Ask(id=2, query=ShowWorkflow(id="latest")),
        codec.Follow(id=3, since=7, workflow="wf_1"),
        codec.FollowLog(id=4, job="job_1", stream="progress", offset=10, live=False),
        codec.Unfollow(id=3),
    ],
)
def test_a_clients_frames_survive_the_wire(frame: codec.FromClient) -> None:
    assert codec.decode_from_client(codec.encode(frame)) == frame


def test_several_events_travel_in_one_frame() -> None:
    moved = StepMoved(workflow="wf_1", step="apply", stage="apply", old=StepState.READY, new=StepState.RUNNING)
    frame = codec.EventsHappened(id=1, events=tuple(Recorded(seq=n, at=0.5, event=moved) for n in range(3)))
    assert codec.decode_from_daemon(codec.encode(frame)) == frame


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"type": "nope"}', '{"type": "do", "id": 1}', '{"type": "do", "id": "x", "command": {}}'],
)
def test_what_is_no_message_is_refused_and_not_raised(text: str) -> None:
    with pytest.raises(WrongUsage, match="message not understood"):
        codec.decode_from_client(text)


def test_a_refusal_is_the_same_error_on_the_other_side() -> None:
    error = codec.error_of(codec.refusal(1, Conflict("taken", hint="choose another")))
    assert isinstance(error, Conflict)
    assert (error.what, error.hint, error.exit_code) == ("taken", "choose another", 6)
