"""What a line of the callback shows to a person who watches."""

from __future__ import annotations

from exocomp.drivers.ansible import record
from exocomp.protocol.jobs import Progress


def decode(line: str) -> Progress | None:
    """The live view of one line of the record; None when it shows nothing (torn, or an item that did nothing)."""
    match record.parse(line):
        case record.Play(name=name, pattern=pattern, hosts=()):
            return Progress(state="warning", what=f"play {name}", detail=f"no host matches {pattern!r}")
        case record.Play() as play:
            count = len(play.hosts)
            return Progress(state="plain", what=f"play {play.name}", detail=f"{count} host{'s' * (count != 1)}")
        case record.Task() as task:
            return Progress(state="started", what=task.name)
        case record.OnHost() as result:
            detail = f"{result.msg} (ignored)" if result.ignored else result.msg
            return Progress(
                state=result.state, subject=result.host, what=result.task, detail=detail, elapsed_s=result.s
            )
        case record.Item(state="changed" | "failed") as item:
            detail = ": ".join(part for part in (item.item, item.msg) if part)
            return Progress(state="plain", subject=item.host, what=item.task, detail=f"{item.state} {detail}")
        case record.Retry() as retry:
            again = f"try {retry.attempt} of {retry.of} failed"
            return Progress(
                state="plain",
                subject=retry.host,
                what=retry.task,
                detail=f"{again}: {retry.msg}" if retry.msg else again,
            )
        case record.Warned() as warned:
            return Progress(state="warning", subject=warned.host, detail=warned.msg)
        case record.Recap() as recap:
            counts = ("ok", "changed", "failed", "unreachable", "skipped", "rescued", "ignored")
            detail = " ".join(f"{name}={count}" for name in counts if (count := getattr(recap, name)))
            return Progress(state="plain", subject=recap.host, what="recap", detail=detail)
    return None
