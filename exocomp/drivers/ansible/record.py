"""The record of a play: the lines that the callback writes, and what they tell together."""

from __future__ import annotations

from pathlib import Path

import msgspec

PROGRESS = "told/progress"  # the callback's file in the attempt; its directory is the job's to write


class Play(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="play"):
    """A play, or one batch of it, began; `hosts` are those its pattern matched within the limit."""

    name: str
    pattern: str = ""
    hosts: tuple[str, ...] = ()


class Task(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="task"):
    """A task began; `some` when it needn't be for every host of the play (run_once, meta), `ends` when after it
    the play may be over for some hosts."""

    name: str
    some: bool = False
    ends: bool = False


class OnHost(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="host"):
    """How a task went on a host; `ignored` when the play was told to go on; `s` is seconds."""

    state: str
    host: str
    task: str
    msg: str = ""
    ignored: bool = False
    s: float | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="item"):
    """How one item of a loop went on a host."""

    state: str
    host: str
    task: str
    item: str = ""
    msg: str = ""


class Retry(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="retry"):
    """A task with `until` tries once more."""

    host: str
    task: str
    msg: str = ""
    attempt: int | None = None
    of: int | None = None


class Warned(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="warning"):
    msg: str
    host: str = ""


class Recap(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="recap"):
    """Ansible's own count for one host."""

    host: str
    ok: int = 0
    changed: int = 0
    failed: int = 0
    unreachable: int = 0
    skipped: int = 0
    rescued: int = 0
    ignored: int = 0


class End(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="end"):
    """The playbook came to its end and every recap is written."""


Line = Play | Task | OnHost | Item | Retry | Warned | Recap | End
_decoder = msgspec.json.Decoder(Line)


def parse(line: str | bytes) -> Line | None:
    """One line of the callback; None for a torn or foreign one."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
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

    @property
    def hosts(self) -> list[str]:
        """The hosts that something happened on."""
        return sorted(self.recaps.keys() | self.seen.keys())


def read(attempt: Path) -> Story:
    """The story of an attempt; an empty one when the callback wrote nothing."""
    story = Story()
    path = attempt / PROGRESS
    if not path.exists():
        return story
    batch: tuple[str, ...] = ()
    over = False
    with path.open("rb") as file:
        for raw in file:
            match parse(raw):
                case Play() as play:
                    story.plays += 1
                    batch, over = play.hosts, False
                    story.matched.update(play.hosts)
                    if not play.hosts:
                        story.unmatched.append(play.pattern)
                case Task() as task:
                    over = over or task.ends
                    if not over and not task.some:
                        story.due.update(batch)
                case OnHost() as result:
                    story.seen.setdefault(result.host, set()).add(result.state)
                    if result.state in ("failed", "unreachable") and not result.ignored:
                        story.faults[result.host] = result
                case Recap() as recap:
                    story.recaps[recap.host] = recap
                case End():
                    story.ended = True
    return story
