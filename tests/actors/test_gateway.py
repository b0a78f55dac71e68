"""The gateway over a real store, spoken to by the public client: queries, refusals, subscriptions, slow clients."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio_websocket import WebSocketConnection, wrap_client_stream

from exocomp.actors.base import Mailbox
from exocomp.actors.gateway import Gateway, listen
from exocomp.actors.intake import Intake
from exocomp.actors.sequencer import Sequencer
from exocomp.actors.tail import Tail
from exocomp.actors.vendor import Vendor
from exocomp.client import connect
from exocomp.config import Layout, Settings
from exocomp.errors import Conflict, ExocompError, NotFound, WrongUsage
from exocomp.model import RunOptions, Workspace
from exocomp.protocol import codec
from exocomp.protocol import commands as c
from exocomp.protocol import queries as q
from exocomp.protocol.events import WorkspaceAdded, WorkspaceRemoved
from exocomp.secrets.sealing import Seal
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.store import events, workspaces
from exocomp.store.store import Store, open_writer


class House:
    def __init__(self, root: Path) -> None:
        self.layout = Layout(root)
        self.fleet = FleetKeys(self.layout.keys, Seal(bytes(32)))
        self.store: Store = open_writer(self.layout.store)
        self.socket = root / "run" / "x.sock"
        self.tail = Tail(self.store, self.layout)
        self.store.rang = self.tail.ring
        self.box: Mailbox[Any] = Mailbox()
        self.runner: Mailbox[Any] = Mailbox()


@asynccontextmanager
async def living() -> AsyncIterator[House]:
    with TemporaryDirectory(prefix="xo-") as root:
        house = House(Path(root))
        intake = Intake(house.store, house.layout, Settings(), house.fleet)
        gateway = Gateway(
            house.socket,
            house.store,
            house.layout,
            house.tail,
            intake,
            sequencer=house.box,
            keyscanner=house.runner,
            vendor=Vendor(house.layout, Settings(), lambda event: None),
        )
        sequencer = Sequencer(
            house.store,
            mailbox=house.box,
            runners={"tofu": house.runner},
            slots=1,
            runbooks="/runbooks",
            keys=house.fleet,
            standing=lambda name: Path(root) / name,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(sequencer.run)
            await nursery.start(gateway.run)
            yield house
            nursery.cancel_scope.cancel()
        house.store.close()


def space(name: str = "edge") -> Workspace:
    return Workspace(name=name, directory="/m", root="/m")


async def test_the_socket_is_its_owners_alone() -> None:
    async with living() as house:
        assert stat.S_IMODE(house.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(house.socket.parent.stat().st_mode) == 0o700


async def test_a_socket_path_that_is_in_use_is_refused_and_left_as_it_is() -> None:
    async with living() as house:
        with pytest.raises(Conflict, match="another daemon listens"):
            await listen(house.socket)
        async with connect(house.socket):
            pass
        file = house.socket.with_name("notes.txt")
        file.write_text("kept")
        with pytest.raises(WrongUsage, match="not a socket"):
            await listen(file)
        assert file.read_text() == "kept"


async def test_the_socket_that_a_dead_daemon_left_is_replaced(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (await listen(tmp_path / "s")).socket.close()
    assert (tmp_path / "s").is_socket()
    await (await listen(tmp_path / "s")).aclose()


async def test_opening_the_socket_touches_no_umask_that_other_threads_create_by() -> None:
    before = os.umask(0o022)
    seen: set[int] = set()
    try:

        def watch(stop: trio.Event) -> None:
            while not stop.is_set():
                seen.add(os.umask(0o022))

        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, watch, stop)
            for _ in range(20):
                async with living():
                    await trio.lowlevel.checkpoint()
            stop.set()
    finally:
        os.umask(before)
    assert seen == {0o022}


async def test_the_socket_is_gone_after_a_stop() -> None:
    async with living() as house:
        socket = house.socket
    assert not socket.exists()


async def test_commands_queries_and_refusals_share_a_connection() -> None:
    async with living() as house:
        workspaces.add(house.store, space())
        async with connect(house.socket) as client:
            found = await client.ask(q.ListWorkspaces())
            assert isinstance(found, q.Workspaces)
            assert [view.workspace.name for view in found.workspaces] == ["edge"]
            with pytest.raises(NotFound, match="no workspace 'nope'"):
                await client.do(c.StartWorkflow(kind="apply", workspace="nope"))
            with pytest.raises(NotFound, match="no workflow"):
                await client.ask(q.ShowWorkflow(id="wf_none"))
            started = await client.do(c.StartWorkflow(kind="apply", workspace="edge"))
            assert isinstance(started, c.Started)
            shown = await client.do(c.ShowFleetKey())
            assert isinstance(shown, c.FleetKeyShown)
            assert shown.public_key == house.fleet.current().public_line


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda at: at / "none.yml", "No such file"),
        (lambda at: at, "not a regular file"),
        (lambda at: (os.mkfifo(at / "fifo"), at / "fifo")[1], "not a regular file"),
        (lambda at: Path("site.yml"), "not an absolute path"),
    ],
)
async def test_a_playbook_that_is_no_file_is_refused_before_anything_is_recorded(make, says: str, tmp_path) -> None:
    async with living() as house:
        workspaces.add(house.store, space())
        newest = events.newest(house.store)
        async with connect(house.socket) as client:
            with pytest.raises(WrongUsage, match=says):
                await client.do(c.StartWorkflow(kind="provision", workspace="edge", playbook=str(make(tmp_path))))
        assert events.newest(house.store) == newest


@pytest.mark.parametrize(
    "options", [RunOptions(limit=""), RunOptions(limit=" , "), RunOptions(tags=""), RunOptions(skip_tags=" ")]
)
async def test_an_empty_choice_is_refused_for_it_would_choose_everything(options: RunOptions, tmp_path: Path) -> None:
    (tmp_path / "p.yml").touch()
    async with living() as house, connect(house.socket) as client:
        workspaces.add(house.store, space())
        order = c.StartWorkflow(kind="handoff", workspace="edge", playbook=str(tmp_path / "p.yml"), options=options)
        with pytest.raises(WrongUsage, match="names nothing"):
            await client.do(order)


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"follow","id":1,"since":9223372036854775808}',
        '{"type":"follow","id":1,"since":-1}',
        '{"type":"ask","id":1,"query":{"type":"list_events","limit":-1}}',
        '{"type":"ask","id":1,"query":{"type":"show_inventory","name":"tf:edge","generation":18446744073709551616}}',
        '{"type":"follow_log","id":1,"job":"latest","offset":-5}',
        '{"type":"follow_log","id":1,"job":"latest","attempt":1e400}',
        '{"type":"do","id":1,"command":{"type":"start_workflow","kind":"provision","workspace":"edge",'
        '"playbook":"/a\\u0000b"}}',
        '{"type":"do","id":1,"command":{"type":"start_workflow","kind":"plan","workspace":"edge","options":'
        '{"extra_vars":{"a":' + "[" * 9999 + "]" * 9999 + "}}}}",
    ],
)
async def test_a_value_that_nothing_here_can_hold_is_refused_as_wrong_usage(frame: str) -> None:
    async with living() as house, raw_client(house) as raw:
        workspaces.add(house.store, space())
        await raw.send_message(frame)
        refused = codec.decode_from_daemon(await raw.get_message())
        assert isinstance(refused, codec.Refused)
        assert refused.code == "usage"


async def test_a_fault_in_answering_one_client_is_refused_and_harms_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a bug")

    async with living() as house, connect(house.socket) as other, connect(house.socket) as client:
        with monkeypatch.context() as patch:
            patch.setattr("exocomp.actors.gateway.answer", broken)
            with pytest.raises(ExocompError, match="the daemon failed at this"):
                await client.ask(q.ListWorkspaces())
        for each in (client, other):
            assert await each.ask(q.ListWorkspaces()) == q.Workspaces(workspaces=())


async def test_a_request_as_large_as_a_client_may_send_arrives() -> None:
    async with living() as house, connect(house.socket) as client:
        with pytest.raises(NotFound):
            await client.do(c.StartWorkflow(kind="apply", workspace="x" * (3 << 20)))
        with pytest.raises(WrongUsage, match="too large"):
            await client.do(c.StartWorkflow(kind="apply", workspace="x" * (5 << 20)))


async def test_a_subscription_starts_where_it_is_told_and_goes_on_live() -> None:
    async with living() as house:
        workspaces.add(house.store, space("a"))
        workspaces.add(house.store, space("b"))
        async with connect(house.socket) as client:
            seen = []
            async for recorded in client.follow(since=1):
                seen.append((recorded.seq, type(recorded.event)))
                if len(seen) == 1:
                    workspaces.remove(house.store, "a")
                if len(seen) == 2:
                    break
    assert seen == [(2, WorkspaceAdded), (3, WorkspaceRemoved)]


async def test_a_client_that_stops_reading_slows_nobody_and_loses_nothing() -> None:
    many = 3000
    async with living() as house, connect(house.socket) as slow, connect(house.socket) as quick:
        sleeping = slow.follow()
        workspaces.add(house.store, space("first"))
        assert (await anext(sleeping)).seq == 1
        note = WorkspaceAdded(workspace="x" * 200, directory="/" + "d" * 400)
        with trio.fail_after(30):
            for _ in range(many):
                events.note(house.store, "note", note)
                await trio.lowlevel.checkpoint()
            got = [recorded.seq async for recorded in take(quick.follow(since=1), many)]
        assert got == list(range(2, many + 2))
        late = [recorded.seq async for recorded in take(sleeping, many)]
        assert late == got


async def take(stream: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    for _ in range(count):
        yield await anext(stream)


@asynccontextmanager
async def raw_client(house: House) -> AsyncIterator[WebSocketConnection]:
    """A connection that has been greeted and says what it is told."""
    async with await trio.open_unix_socket(str(house.socket)) as stream, trio.open_nursery() as nursery:
        raw = await wrap_client_stream(nursery, stream, "localhost", "/v1")
        assert isinstance(codec.decode_from_daemon(await raw.get_message()), codec.Hello)
        yield raw
        nursery.cancel_scope.cancel()


async def test_what_is_no_message_is_refused_and_the_connection_lives_on() -> None:
    async with living() as house, raw_client(house) as raw:
        await raw.send_message("{")
        refused = codec.decode_from_daemon(await raw.get_message())
        assert isinstance(refused, codec.Refused)
        assert refused.code == "usage"
        await raw.send_message(codec.encode(codec.Ask(id=1, query=q.ListWorkspaces())))
        assert isinstance(codec.decode_from_daemon(await raw.get_message()), codec.Answer)
        await raw.send_message(codec.encode(codec.Hello(protocol=99)))
        refused = codec.decode_from_daemon(await raw.get_message())
        assert isinstance(refused, codec.Refused)
        assert "protocol 99" in refused.what
