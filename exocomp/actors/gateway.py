"""The gateway: the websocket protocol over a Unix socket that only its owner can open."""

from __future__ import annotations

import errno
import logging
import os
import pwd
import socket
import stat
import struct
from pathlib import Path

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from exocomp import __version__
from exocomp.actors.base import Mailbox
from exocomp.actors.intake import Intake
from exocomp.actors.tail import Tail
from exocomp.actors.vendor import Vendor
from exocomp.config import Layout
from exocomp.errors import Conflict, ExocompError, NotAllowed, WrongUsage
from exocomp.protocol import codec
from exocomp.protocol.commands import AnyCommand, AnyReply, ScanHost, VendorContent
from exocomp.protocol.events import Recorded
from exocomp.store import events, jobs, workflows
from exocomp.store.answer import answer
from exocomp.store.store import Store

log = logging.getLogger(__name__)

BACKLOG = 1024
ELSEWHERE = "choose another --socket"
LONGEST_PATH = 107  # sun_path of unix(7), less the final NUL


class Gateway:
    """Serves every client with a task of its own; a slow one waits on its own socket only."""

    def __init__(
        self,
        path: Path,
        store: Store,
        layout: Layout,
        tail: Tail,
        intake: Intake,
        *,
        sequencer: Mailbox[object],
        keyscanner: Mailbox[object],
        vendor: Vendor,
    ) -> None:
        self._path = path
        self._store = store
        self._layout = layout
        self._tail = tail
        self._intake = intake
        self._sequencer = sequencer
        self._keyscanner = keyscanner
        self._vendor = vendor

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        listener = await listen(self._path)
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(trio.serve_listeners, self._serve, [listener])
                task_status.started()
        finally:
            self._path.unlink(missing_ok=True)

    async def _serve(self, stream: trio.SocketStream) -> None:
        uid = peer_uid(stream)
        try:
            async with trio.open_nursery() as nursery:
                request = await wrap_server_stream(nursery, stream, max_message_size=codec.LARGEST)
                websocket = await request.accept()
                if uid in (os.getuid(), 0):
                    await Session(self, websocket, nursery, name_of(uid)).run()
                else:
                    log.warning("client of uid %s refused", uid)
                    refusal = NotAllowed(
                        f"uid {uid} may not speak to this daemon", hint="run it as the daemon's user"
                    )
                    await websocket.send_message(codec.encode(codec.refusal(0, refusal)))
                await websocket.aclose()
                nursery.cancel_scope.cancel()
        except* (ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError):
            log.debug("client gone")
        except* Exception as group:
            log.error("client dropped", exc_info=group)  # a fault in serving one client is not every client's

    async def carry_out(self, command: AnyCommand, by: str) -> AnyReply:
        """Check a command of the caller `by` at the door, then hand it to the actor which carries it out."""
        ready = await self._intake.check(command, by)
        if isinstance(ready, AnyReply):
            return ready
        if isinstance(ready, VendorContent):  # in the client's own task: who hangs up gives it up
            return await self._vendor.carry_out(ready)
        to = self._keyscanner if isinstance(ready, ScanHost) else self._sequencer
        reply: AnyReply = await to.ask(ready)
        return reply


class Session:
    """One client: hello, then commands, queries and subscriptions by id."""

    def __init__(self, gateway: Gateway, websocket: WebSocketConnection, nursery: trio.Nursery, who: str) -> None:
        self._gateway = gateway
        self._websocket = websocket
        self._nursery = nursery
        self._who = who
        self._following: dict[int, trio.CancelScope] = {}

    async def run(self) -> None:
        store = self._gateway._store
        await self._send(codec.Hello(version=__version__, since=events.newest(store)))
        while True:
            try:
                frame = codec.decode_from_client(await self._websocket.get_message())
            except WrongUsage as error:
                await self._send(codec.refusal(0, error))
                continue
            match frame:
                case codec.Hello(protocol=theirs) if theirs != codec.VERSION:
                    hint = f"this daemon speaks protocol {codec.VERSION}; use an exocomp of the same version"
                    await self._send(codec.refusal(0, WrongUsage(f"protocol {theirs} is not spoken here", hint=hint)))
                    return
                case codec.Hello():
                    continue
                case codec.Unfollow(id=id):
                    if scope := self._following.pop(id, None):
                        scope.cancel()
                case _:
                    self._nursery.start_soon(self._answer, frame)

    async def _answer(self, frame: codec.Do | codec.Ask | codec.Follow | codec.FollowLog) -> None:
        gateway = self._gateway
        try:
            match frame:
                case codec.Do(id=id, command=command):
                    await self._send(codec.Reply(id=id, reply=await gateway.carry_out(command, self._who)))
                case codec.Ask(id=id, query=query):
                    found = answer(gateway._store, gateway._layout, query)
                    await self._send(codec.Answer(id=id, answer=found))
                case codec.Follow() | codec.FollowLog():
                    with trio.CancelScope() as scope:
                        self._following[frame.id] = scope
                        await self._follow(frame)
                    self._following.pop(frame.id, None)
                    await self._send(codec.Ended(id=frame.id))
        except ExocompError as error:
            await self._send(codec.refusal(frame.id, error))
        except (ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError):
            raise
        except Exception as fault:
            log.error("request %s failed", type(frame).__name__, exc_info=fault)
            broken = ExocompError(
                f"the daemon failed at this: {fault!r}",
                hint="see its log; what it recorded stands: look before a retry",
            )
            await self._send(codec.refusal(frame.id, broken))

    async def _follow(self, frame: codec.Follow | codec.FollowLog) -> None:
        gateway = self._gateway
        id = frame.id
        if isinstance(frame, codec.Follow):
            workflow = workflows.find(gateway._store, frame.workflow).id if frame.workflow else None

            async def send_events(page: tuple[Recorded, ...]) -> None:
                await self._send(codec.EventsHappened(id=id, events=page))

            await gateway._tail.follow(frame.since, workflow, frame.workspace, send_events)
            return
        if frame.stream not in ("log", "progress"):
            raise WrongUsage(f"no stream is called {frame.stream!r}", hint="log or progress")
        job = jobs.find(gateway._store, frame.job)
        attempt = frame.attempt or job.attempt
        follow = gateway._tail.follow_log if frame.stream == "log" else gateway._tail.follow_progress

        async def send_text(offset: int, text: str) -> None:
            await self._send(codec.LogChunk(id=id, offset=offset, text=text))

        await follow(job, attempt, frame.offset, frame.live, send_text)

    async def _send(self, frame: codec.FromDaemon) -> None:
        await self._websocket.send_message(codec.encode(frame))


async def listen(path: Path) -> trio.SocketListener:
    """A listening Unix socket, 0600 in a 0700 directory; the caller holds the daemon's lock."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise WrongUsage(
            f"the socket path is longer than {LONGEST_PATH} bytes: {path}", hint="choose a shorter one with --socket"
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.stat().st_mode & 0o077:
            hint = f"choose another --socket, or chmod 700 {path.parent} if it is for exocomp alone"
            raise WrongUsage(f"the socket's directory {path.parent} is open to others", hint=hint)
        _make_way(path)
    except OSError as error:
        raise WrongUsage(f"cannot make the socket {path}: {error.strerror}", hint=ELSEWHERE) from None
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    await sock.bind(str(path))
    # Not by the umask: that is the whole process's, and a thread may be making directories meanwhile.
    path.chmod(0o600)
    sock.listen(BACKLOG)
    return trio.SocketListener(sock)


def _make_way(path: Path) -> None:
    """Remove the socket that a dead daemon left; raises WrongUsage for anything else, Conflict for a living one."""
    if not os.path.lexists(path):
        return
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise WrongUsage(f"{path} exists and is not a socket", hint=ELSEWHERE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        # With a full backlog (EAGAIN) somebody listens as well.
        if probe.connect_ex(str(path)) in (0, errno.EAGAIN):
            raise Conflict(f"another daemon listens at {path}", hint=f"stop it first, or {ELSEWHERE}")
    path.unlink()


def peer_uid(stream: trio.SocketStream) -> int:
    """SO_PEERCRED of unix(7): the uid the client had when it connected."""
    credentials = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def name_of(uid: int) -> str:
    """The user's name on this machine; `uid N` for one that has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
