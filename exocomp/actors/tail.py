"""The tail: an event stream is a table and a cursor; a log stream is a file and an offset. Nothing is dropped."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import msgspec
import trio

from exocomp.config import Layout
from exocomp.drivers.ansible import progress as ansible
from exocomp.drivers.ansible.record import PROGRESS
from exocomp.drivers.tofu import progress as tofu
from exocomp.model import AttemptState
from exocomp.protocol.events import Recorded
from exocomp.protocol.jobs import Job, Progress
from exocomp.store import events, jobs
from exocomp.store.store import Store

PAGE = 100
CHUNK = 65536
POLL_S = 0.1
LONGEST_LINE = 16 << 20

SendEvents = Callable[[tuple[Recorded, ...]], Awaitable[None]]
SendText = Callable[[int, str], Awaitable[None]]


class Tail:
    """`ring` is called after each commit; it wakes every follower."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self._store = store
        self._layout = layout
        self._bell = trio.Event()

    def ring(self) -> None:
        self._bell.set()
        self._bell = trio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when the condition holds; it is asked again after each commit."""
        while True:
            bell = self._bell
            if condition():
                return
            await bell.wait()

    async def follow(self, since: int, workflow: str | None, workspace: str | None, send: SendEvents) -> None:
        """Send every event numbered above `since` and go on for ever; the pace is the receiver's."""
        while True:
            bell = self._bell  # taken before looking, so that no ring is missed
            page = events.after(self._store, since, workflow=workflow, workspace=workspace, limit=PAGE)
            if page:
                await send(page)
                since = page[-1].seq
            else:
                await bell.wait()

    async def follow_log(self, job: Job, attempt: int, offset: int, live: bool, send: SendText) -> None:
        """Send (next offset, text) of one attempt's log from `offset` until the attempt has ended."""
        text = codecs.getincrementaldecoder("utf-8")("replace")
        file = self._layout.attempt(job.id, attempt) / "log"
        async with aclosing(self._chunks(file, job, attempt, offset, live)) as chunks:
            async for end, chunk in chunks:
                if decoded := text.decode(chunk):
                    await send(end, decoded)

    async def follow_progress(self, job: Job, attempt: int, offset: int, live: bool, send: SendText) -> None:
        """As follow_log, decoded by the job's driver: each text is lines of JSON Progress."""
        file, decode = source(job, self._layout.attempt(job.id, attempt))
        rest = b""
        async with aclosing(self._chunks(file, job, attempt, offset, live)) as chunks:
            async for end, chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > LONGEST_LINE:
                    rest = b""
                found = [step for line in lines if (step := decode(line.decode("utf-8", "replace"))) is not None]
                if found:
                    await send(end - len(rest), "".join(msgspec.json.encode(step).decode() + "\n" for step in found))

    async def _chunks(
        self, file: Path, job: Job, attempt: int, offset: int, live: bool
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        while True:
            ended = not live or self._ended(job.id, attempt)  # asked before reading: the rest is read after the end
            while chunk := _read(file, offset):
                offset += len(chunk)
                yield offset, chunk
            if ended:
                return
            await trio.sleep(POLL_S)

    def _ended(self, job: str, attempt: int) -> bool:
        return all(
            a.number != attempt or a.state is not AttemptState.RUNNING for a in jobs.attempts(self._store, job)
        )


def source(job: Job, directory: Path) -> tuple[Path, Callable[[str], Progress | None]]:
    """The file that holds a job's progress, and how its lines are read."""
    if job.kind == "ansible":
        return directory / PROGRESS, ansible.decode
    return directory / "log", tofu.decoder()


def _read(file: Path, offset: int) -> bytes:
    try:
        with file.open("rb") as stream:
            stream.seek(offset)
            return stream.read(CHUNK)
    except FileNotFoundError:
        return b""
