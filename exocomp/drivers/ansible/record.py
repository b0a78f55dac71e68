"""The record of a play: the lines that the callback writes, and what they tell together."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

PROGRESS = "told/progress"  # the callback's file in the attempt, which the job can write but not replace
LONGEST_LINE = 16 << 20
LARGEST = 512 << 20  # where reading stops, and so the record has no end; a job can put a hole of any size into it
MOST_HOSTS = 100_000  # what is told of further ones is passed over; each becomes a row of the ledger
MOST_UNMATCHED = 100  # plays without a host that are named
Text = Annotated[str, msgspec.Meta(max_length=4096)]  # ten times what the callback lets through
Count = Annotated[int, msgspec.Meta(ge=0, le=10**9)]


class Play(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="play"):
    """A play, or one batch of it, began; `hosts` are those its pattern matched within the limit."""

    name: Text
    pattern: Text = ""
    hosts: tuple[Text, ...] = ()


class Task(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="task"):
    """A task began; `some` when it needn't be for every host of the play (run_once, meta), `ends` when after it
    the play may be over for some hosts."""

    name: Text
    some: bool = False
    ends: bool = False


class OnHost(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="host"):
    """How a task went on a host; `ignored` when the play was told to go on; `s` is seconds."""

    state: Text
    host: Text
    task: Text
    msg: Text = ""
    ignored: bool = False
    s: float | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="item"):
    """How one item of a loop went on a host."""

    state: Text
    host: Text
    task: Text
    item: Text = ""
    msg: Text = ""


class Retry(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="retry"):
    """A task with `until` tries once more."""

    host: Text
    task: Text
    msg: Text = ""
    attempt: int | None = None
    of: int | None = None


class Warned(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="warning"):
    msg: Text
    host: Text = ""


class Recap(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="recap"):
    """Ansible's own count for one host."""

    host: Text
    ok: Count = 0
    changed: Count = 0
    failed: Count = 0
    unreachable: Count = 0
    skipped: Count = 0
    rescued: Count = 0
    ignored: Count = 0


class End(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="end"):
    """The playbook came to its end and every recap is written."""


Line = Play | Task | OnHost | Item | Retry | Warned | Recap | End
_decoder = msgspec.json.Decoder(Line)


def parse(line: str | bytes) -> Line | None:
    """One line of the callback; None for a torn or foreign one."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class Story(msgspec.Struct, kw_only=True):
    """What a record tells: `matched` are all hosts of all plays, `due` those that a task had to run on."""

    plays: int = 0
    matched: set[str] = msgspec.field(default_factory=set)
    due: set[str] = msgspec.field(default_factory=set)
    unmatched: list[str] = []  # patterns of plays that matched no host
    recaps: dict[str, Recap] = {}
    faults: dict[str, OnHost] = {}  # the last fault of each host that the play didn't ignore
    seen: dict[str, set[str]] = {}  # states of each host's tasks
    ended: bool = False

    def counts(self, host: str) -> Recap:
        """Ansible's recap of the host, or one by its tasks when ansible didn't come to that."""
        if (recap := self.recaps.get(host)) is not None:
            return recap
        states = self.seen.get(host, set())
        return Recap(
            host=host, **{state: int(state in states) for state in ("ok", "changed", "failed", "unreachable")}
        )

    def has_room_for(self, host: str) -> bool:
        return host in self.recaps or host in self.seen or len(self.recaps) + len(self.seen) < MOST_HOSTS

    @property
    def hosts(self) -> list[str]:
        """The hosts that something happened on."""
        return sorted(self.recaps.keys() | self.seen.keys())


def read(attempt: Path) -> Story:
    """The story of an attempt; an empty one when the callback wrote nothing."""
    story = Story()
    batch: tuple[str, ...] = ()
    over = False
    for raw in _lines(attempt / PROGRESS):
        match parse(raw):
            case Play() as play:
                story.plays += 1
                batch, over = play.hosts, False
                if len(story.matched) < MOST_HOSTS:
                    story.matched.update(play.hosts)
                if not play.hosts and len(story.unmatched) < MOST_UNMATCHED:
                    story.unmatched.append(play.pattern)
            case Task() as task:
                over = over or task.ends
                if not over and not task.some:
                    story.due.update(batch)
                    batch = ()  # once: a job can write any number of tasks
            case OnHost() as result if story.has_room_for(result.host):
                story.seen.setdefault(result.host, set()).add(result.state)
                if result.state in ("failed", "unreachable") and not result.ignored:
                    story.faults[result.host] = result
            case Recap() as recap if story.has_room_for(recap.host):
                story.recaps[recap.host] = recap
            case End():
                story.ended = True
    return story


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a regular file, up to LARGEST bytes; none of anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENXIO):  # absent, a link, a socket
            raise
        return
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return
    with open(descriptor, "rb") as file:
        left = LARGEST
        while left > 0 and (line := file.readline(LONGEST_LINE)):
            left -= len(line)
            yield line
