from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio
import trio.testing
from fake_daemon import FakeDaemon, Say, listening

import exocomp.client
from exocomp.cli.lasting import stay_connected
from exocomp.client import FRAMES_AHEAD, connect
from exocomp.errors import Conflict, NoDaemon, NotAllowed, NotFound
from exocomp.protocol import codec
from exocomp.protocol.commands import CancelWorkflow, Done
from exocomp.protocol.events import Recorded, WorkspaceRemoved
from exocomp.protocol.queries import ListWorkspaces, ShowWorkspace, Workspaces


@pytest.fixture
def path() -> Iterator[Path]:
    with TemporaryDirectory() as directory:
        yield Path(directory) / "s"


def recorded(seq: int) -> Recorded:
    return Recorded(seq=seq, at=float(seq), event=WorkspaceRemoved(workspace="edge"))


async def answer(frame: Any, say: Say) -> None:
    match frame:
        case codec.Do(command=CancelWorkflow(id="slow")):
            await trio.sleep(0.05)
            await say(codec.Reply(id=frame.id, reply=Done(message="slow")))
        case codec.Do(command=CancelWorkflow(id="gone")):
            await say(codec.Refused(id=frame.id, code="not_found", what="no workflow 'gone'", hint="list them"))
        case codec.Do():
            await say(codec.Reply(id=frame.id, reply=Done(message="quick")))
        case codec.Ask(query=ShowWorkspace()):
            await say(codec.Refused(id=frame.id, code="conflict", what="two of them"))
        case codec.Ask():
            await say(codec.Answer(id=frame.id, answer=Workspaces(workspaces=())))
        case codec.Follow(since=since):
            # Three events a frame, and only so many that the test ends.
            for first in range(since + 1, 1000, 3):
                await say(codec.EventsHappened(id=frame.id, events=tuple(map(recorded, range(first, first + 3)))))
        case codec.FollowLog(job="none"):
            await say(codec.Refused(id=frame.id, code="not_found", what="no job 'none'"))
        case codec.FollowLog(offset=offset):
            for end in range(offset + 1, 4):
                await say(codec.LogChunk(id=frame.id, offset=end, text=f"{end}\n"))
            await say(codec.Ended(id=frame.id))


async def test_the_connection_knows_the_newest_event(path: Path) -> None:
    async with listening(FakeDaemon(answer), path), connect(path) as client:
        assert (client.since, client.version) == (7, "test")


async def test_requests_are_answered_by_id_not_by_order(path: Path) -> None:
    said: list[str] = []
    async with listening(FakeDaemon(answer), path), connect(path) as client:

        async def do(id: str) -> None:
            reply = await client.do(CancelWorkflow(id=id))
            assert isinstance(reply, Done)
            said.append(reply.message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(do, "slow")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(do, "wf")
        assert await client.ask(ListWorkspaces()) == Workspaces(workspaces=())
    assert said == ["quick", "slow"]


async def test_a_refusal_is_raised_as_the_daemons_own_error(path: Path) -> None:
    async with listening(FakeDaemon(answer), path), connect(path) as client:
        with pytest.raises(NotFound) as caught:
            await client.do(CancelWorkflow(id="gone"))
        assert (caught.value.what, caught.value.hint) == ("no workflow 'gone'", "list them")
        with pytest.raises(Conflict):
            await client.ask(ShowWorkspace(name="x"))


async def test_an_error_inside_the_connection_comes_out_by_itself(path: Path) -> None:
    async with listening(FakeDaemon(answer), path):
        with pytest.raises(NotFound):
            async with connect(path) as client:
                await client.do(CancelWorkflow(id="gone"))


async def test_events_come_without_gap_and_leaving_the_loop_unfollows(path: Path) -> None:
    daemon = FakeDaemon(answer)
    async with listening(daemon, path), connect(path) as client:
        seen = []
        async for each in client.follow(since=10):
            seen.append(each.seq)
            if len(seen) == 50:
                break
        assert seen == list(range(11, 61))
        assert await client.ask(ListWorkspaces()) == Workspaces(workspaces=())
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert codec.Unfollow(id=1) in daemon.frames


async def test_a_slow_consumer_loses_nothing_and_still_gets_its_replies(path: Path) -> None:
    async with listening(FakeDaemon(answer), path), connect(path) as client:
        events = client.follow()
        seen = [(await anext(events)).seq]
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert client._streams[1].statistics().current_buffer_used <= FRAMES_AHEAD
        assert await client.do(CancelWorkflow(id="wf")) == Done(message="quick")
        while seen[-1] < 999:
            seen.append((await anext(events)).seq)
        assert seen == list(range(1, 1000))


async def test_a_slow_connection_leaves_another_one_alone(path: Path) -> None:
    async with listening(FakeDaemon(answer), path), connect(path) as slow, connect(path) as quick:
        assert (await anext(slow.follow())).seq == 1
        events = quick.follow()
        assert [(await anext(events)).seq for _ in range(300)] == list(range(1, 301))


async def test_a_log_ends_with_its_attempt_and_stays_ended(path: Path) -> None:
    async with listening(FakeDaemon(answer), path), connect(path) as client:
        log = client.follow_log("job", offset=1)
        assert [(chunk.offset, chunk.text) async for chunk in log] == [(2, "2\n"), (3, "3\n")]
        assert [chunk async for chunk in log] == []
        with pytest.raises(NotFound):
            await anext(client.follow_log("none"))


async def test_a_lost_connection_ends_every_wait(path: Path) -> None:
    async def silent(frame: Any, say: Say) -> None:
        await trio.sleep_forever()

    daemon = FakeDaemon(silent)
    async with listening(daemon, path), connect(path) as client, trio.open_nursery() as nursery:

        async def lose(call: Any) -> None:
            with pytest.raises(NoDaemon, match="lost"):
                await call

        nursery.start_soon(lose, client.do(CancelWorkflow(id="wf")))
        nursery.start_soon(lose, anext(client.follow()))
        await trio.testing.wait_all_tasks_blocked(0.05)
        daemon.drop()
        await client.wait_closed()
        with pytest.raises(NoDaemon):
            await client.ask(ListWorkspaces())


async def test_no_daemon_is_one_line_with_the_next_step(path: Path) -> None:
    for place in (path, path / "below"):
        with pytest.raises(NoDaemon) as caught:
            async with connect(place):
                pass
        assert caught.value.what == f"no daemon answers at {place}"
        assert "exocomp serve" in caught.value.hint


async def test_a_stale_socket_a_plain_file_and_a_long_path_are_no_daemon(path: Path) -> None:
    with trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM) as socket:
        await socket.bind(str(path))
    plain = path.parent / "plain"
    plain.write_text("")
    for place in (path, plain, path / ("x" * 200)):
        with pytest.raises(NoDaemon):
            async with connect(place):
                pass


@pytest.mark.parametrize(
    ("hello", "kind", "words"),
    [
        (codec.Hello(protocol=99), NoDaemon, "speaks protocol 99, this client 1"),
        (codec.Refused(id=0, code="not_allowed", what="you may not"), NotAllowed, "you may not"),
        ('{"type": "news"}', NoDaemon, "does not greet"),
        ("hi", NoDaemon, "does not greet"),
    ],
)
async def test_a_wrong_greeting_is_told_plainly(path: Path, hello: Any, kind: type[Exception], words: str) -> None:
    async with listening(FakeDaemon(answer, hello), path):
        with pytest.raises(kind, match=words):
            async with connect(path):
                pass


async def test_what_does_not_speak_at_all_is_no_daemon(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exocomp.client, "HANDSHAKE_S", 0.05)
    with trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM) as socket:
        await socket.bind(str(path))
        socket.listen(1)
        with pytest.raises(NoDaemon, match="says nothing"):
            async with connect(path):
                pass


async def test_a_frame_that_is_not_understood_ends_the_connection_with_its_reason(path: Path) -> None:
    async def odd(frame: Any, say: Any) -> None:
        await say(codec.Hello())  # known, ignored
        await say.__closure__[0].cell_contents.send_message('{"type": "answer", "id": 1, "answer": {"type": "new"}}')

    async with listening(FakeDaemon(odd), path), connect(path) as client:
        with pytest.raises(NoDaemon, match="does not understand"):
            await client.ask(ListWorkspaces())


async def test_events_go_on_after_the_last_one_when_the_daemon_comes_back(path: Path) -> None:
    daemon = FakeDaemon(answer)
    notes: list[str] = []
    seen: list[int] = []
    async with listening(daemon, path), stay_connected(path, note=notes.append) as link:
        async for each in link.follow(since=0):
            seen.append(each.seq)
            if each.seq == 100:
                daemon.drop()
            if each.seq == 999:
                break
        assert await link.ask(ListWorkspaces()) == Workspaces(workspaces=())
    assert seen == list(range(1, 1000))
    assert any("lost" in note for note in notes)
    assert notes[-1] == "the daemon is back"


async def test_a_daemon_that_stays_away_is_given_up(path: Path) -> None:
    daemon = FakeDaemon(answer)
    async with listening(daemon, path), stay_connected(path, note=lambda text: None, patience_s=0.3) as link:
        path.unlink()
        daemon.drop()
        events = link.follow(since=2000)
        with pytest.raises(NoDaemon, match="did not come back within 0 s"):
            await anext(events)


async def test_the_first_connection_has_no_second_try(path: Path) -> None:
    with pytest.raises(NoDaemon, match="no daemon answers"):
        async with stay_connected(path, note=lambda text: None):
            pass
