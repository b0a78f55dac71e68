"""Where text goes: one JSON document or text on stdout, everything else on stderr."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from exocomp.cli.options import Common
from exocomp.cli.render import clean
from exocomp.errors import ExocompError, WrongUsage


def emit(common: Common, document: Any, text: str) -> None:
    """Print `document` as JSON or `text`, as asked."""
    line(msgspec.json.format(to_json(document), indent=2).decode() if common.as_json else text)


def line(text: str) -> None:
    """One line or block on stdout, at once."""
    if text:
        print(text, flush=True)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def complain(error: ExocompError) -> None:
    """`error:` and `hint:`, one line each, on stderr."""
    note(f"error: {one_line(error.what)}")
    if error.hint:
        note(f"hint: {one_line(error.hint)}")


def one_line(text: str) -> str:
    return clean(" ".join(text.split()))


def to_json(document: Any) -> bytes:
    """Compact JSON; field names are those of the protocol, times are ISO 8601 in UTC."""
    return msgspec.json.encode(plain(document))


def plain(value: Any) -> Any:
    """Structs as dicts with every field; `at` and `…_at` fields that hold Unix seconds as ISO 8601."""
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        out = {} if tag is None else {"type": tag}
        for name in value.__struct_fields__:
            field = getattr(value, name)
            out[name] = _timed(field) if name == "at" or name.endswith("_at") else plain(field)
        return out
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value


def _timed(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_timed(item) for item in value]
    return iso(value) if isinstance(value, float) else plain(value)


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def colored() -> bool:
    return is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")


def width() -> int | None:
    """Columns of the terminal; None when stdout is not one and nothing may be cut."""
    if not sys.stdout.isatty():
        return None
    return max(os.get_terminal_size(sys.stdout.fileno()).columns or 80, 40)


def confirm(question: str, *, yes: bool) -> bool:
    """Ask on a terminal; raises WrongUsage elsewhere unless `yes`."""
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise WrongUsage(f"{question}: not confirmed", hint="add --yes where nobody can be asked")
    sys.stderr.write(f"{question}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
