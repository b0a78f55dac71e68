"""Words on the screen: durations, moments, tables, colours; pure, no I/O."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo

COLORS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36, "dim": 2, "bold": 1}
STATE_COLORS = {
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "running": "cyan",
    "ready": "blue",
    "waiting": "yellow",
    "blocked": "dim",
}
GOOD = frozenset({"answered", "pinned", "known", "ok", "changed"})
WHOLE = frozenset({"ID", "NAME", "HOST", "JOB", "WORKFLOW", "FINGERPRINT"})  # columns that are typed again
LEAST = 9  # columns that a cut cell keeps
BAD = frozenset({"silent", "refused", "failed", "unreachable", "error"})


def duration(seconds: float) -> str:
    """As flags take it, with tenths below ten seconds: 3.2s, 42s, 2m13s, 1h02m, 3d04h."""
    whole = round(max(seconds, 0.0))
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f}s"
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def moment(at: float, zone: tzinfo | None = None) -> str:
    """Local time with offset (or `zone`'s), to the second."""
    return datetime.fromtimestamp(at).astimezone(zone).isoformat(sep=" ", timespec="seconds")


def clock(at: float, zone: tzinfo | None = None) -> str:
    return datetime.fromtimestamp(at).astimezone(zone).strftime("%H:%M:%S")


def clean(text: str) -> str:
    """`text` without what could steer a terminal: control, format and line characters are written as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _shows(char) else ascii(char)[1:-1] for char in text)


def _shows(char: str) -> bool:
    return char == "\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def cells(text: str) -> int:
    """Columns that `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def fit(text: str, width: int) -> str:
    """`text` cut to `width` columns, the cut marked by an ellipsis."""
    if cells(text) <= width:
        return text
    kept = ""
    for char in text:
        if cells(kept + char) > width - 1:
            break
        kept += char
    return kept + "…"


def paint(text: str, color: str | None, on: bool) -> str:
    if not on or not color or not text:
        return text
    return f"\x1b[{COLORS[color]}m{text}\x1b[0m"


def color_of(word: str) -> str | None:
    return STATE_COLORS.get(word) or ("green" if word in GOOD else "red" if word in BAD else None)


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    color: bool = False,
    colored: str = "STATE",
    coloring: Callable[[str], str | None] | None = None,
) -> str:
    """Aligned columns two blanks apart; with `width`, the widest columns are cut until a row fits it.

    What has to be typed again (`WHOLE`) is never cut; where that leaves no room, other columns go, the last first.
    The cells of the column called `colored` are painted by the state that they name, or as `coloring` says.
    """
    body = [[clean(cell) for cell in row] for row in rows]
    sizes = [max(cells(cell) for cell in column) for column in zip(head, *body, strict=True)]
    if width is not None:
        loose = [place for place, name in enumerate(head) if name not in WHOLE]
        while _across(sizes) > width and loose and max(sizes[place] for place in loose) > LEAST:
            sizes[max(loose, key=lambda place: sizes[place])] -= 1
        kept = list(range(len(sizes)))
        while _across([sizes[place] for place in kept]) > width and loose:
            kept.remove(loose.pop())
        sizes = [sizes[place] for place in kept]
        head, *body = [[row[place] for place in kept] for row in (head, *body)]
    lines = [paint(_row(head, sizes), "bold", color)]
    at = head.index(colored) if colored in head else None
    lines += [_row(row, sizes, at, color, coloring or color_of) for row in body]
    return "\n".join(lines)


def _across(sizes: Sequence[int]) -> int:
    return sum(sizes) + 2 * (len(sizes) - 1)


def _row(
    row: Sequence[str],
    sizes: Sequence[int],
    painted: int | None = None,
    color: bool = False,
    coloring: Callable[[str], str | None] = color_of,
) -> str:
    out = []
    for place, (cell, size) in enumerate(zip(row, sizes, strict=True)):
        shown = fit(cell, size)
        padded = shown + " " * (size - cells(shown))
        out.append(paint(padded, coloring(cell), color) if place == painted else padded)
    return "  ".join(out).rstrip()


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """`name  value` lines, names aligned; pairs without a value are left out."""
    shown = [(name, value) for name, value in pairs if value]
    size = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name.ljust(size)}  {clean(value)}" for name, value in shown)
