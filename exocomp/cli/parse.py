"""Values of flags: durations, times, JSON, K=V pairs, files; every refusal names the flag and the value."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from exocomp.cli.options import PlayFlags
from exocomp.errors import WrongUsage
from exocomp.model import RunOptions

_DURATION = re.compile(r"(?:([0-9]{1,4})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,7})m)?(?:([0-9]{1,8}(?:\.[0-9]{1,3})?)s)?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def seconds(text: str, flag: str) -> float:
    """`90s`, `5m`, `1h30m`, `2d` as seconds above zero."""
    found = _DURATION.fullmatch(text.strip())
    if text.strip() and found:
        days, hours, minutes, rest = (float(part or 0) for part in found.groups())
        if total := days * 86400 + hours * 3600 + minutes * 60 + rest:
            return total
    raise WrongUsage(f"{flag} {text!r} is not a duration above zero", hint="write it as 90s, 5m or 1h30m")


def since(text: str, now: float) -> tuple[int, float | None]:
    """An event number, or a time: ISO 8601 or a duration ago; returns (number, Unix seconds or None)."""
    if text.isascii() and text.isdigit() and len(text) < 18:
        return int(text), None
    try:
        return 0, datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        try:
            return 0, now - seconds(text, "--since")
        except WrongUsage:
            hint = "an event number, a time as 2026-01-31T12:00:00+01:00, or how long ago as 10m"
            raise WrongUsage(f"--since {text!r} is neither a number nor a time", hint=hint) from None


def extra_vars(text: str | None) -> dict[str, Any] | None:
    """A JSON object, or `@FILE` that holds one."""
    if text is None:
        return None
    source = "--extra-vars"
    if text.startswith("@"):
        file = regular_file(text[1:], source)
        source = f"--extra-vars file {file}"
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise WrongUsage(f"{source} cannot be read: {error}") from None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        hint = """give JSON: --extra-vars '{"key": "value"}' (key=value would split at every blank)"""
        raise WrongUsage(f"{source} is not a JSON object: {error}", hint=hint) from None


def pairs(texts: Sequence[str], flag: str) -> dict[str, str]:
    """`K=V` each; a later one wins."""
    out = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise WrongUsage(f"{flag} {text!r} is not KEY=VALUE", hint=f"for example {flag} region=eu")
        out[key.strip()] = value
    return out


def name(text: str, what: str) -> str:
    if not _NAME.fullmatch(text):
        hint = "letters, digits, dot, dash and underscore, at most 64, a letter or digit first"
        raise WrongUsage(f"{what} name {text!r} is not usable", hint=hint)
    return text


def regular_file(text: str, what: str) -> Path:
    """The absolute path of one readable regular file; links are followed, devices and pipes never opened for long."""
    path = Path(text).expanduser().absolute()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise WrongUsage(f"{what} {text!r}: {getattr(error, 'strerror', None) or error}") from None
    try:
        mode = os.fstat(descriptor).st_mode
    finally:
        os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise WrongUsage(f"{what} {text!r} is a directory", hint="name one file")
    if not stat.S_ISREG(mode):
        raise WrongUsage(f"{what} {text!r} is not a regular file", hint="name one file")
    return path


def directory(text: str, what: str) -> Path:
    path = Path(text).expanduser().resolve()
    if not path.is_dir():
        reason = "is not a directory" if path.exists() else "does not exist"
        raise WrongUsage(f"{what} {text!r} {reason}")
    return path


def run_options(
    play: PlayFlags, *, ssh_wait: str = "5m", onboard_playbook: str | None = None, require_approval: bool = False
) -> RunOptions:
    return RunOptions(
        ssh_wait_s=seconds(ssh_wait, "--ssh-wait"),
        onboard_playbook=str(regular_file(onboard_playbook, "--onboard-playbook"))
        if onboard_playbook is not None
        else None,
        limit=play.limit,
        tags=play.tags,
        skip_tags=play.skip_tags,
        check=play.check,
        diff=play.diff,
        extra_vars=extra_vars(play.extra_vars),
        ssh_identities=tuple(str(regular_file(path, "--ssh-identity")) for path in play.ssh_identity),
        egress=ports(play.egress),
        require_approval=require_approval,
    )


def ports(numbers: Sequence[int]) -> tuple[int, ...]:
    """TCP ports, each once."""
    for number in numbers:
        if not 1 <= number <= 65535:
            raise WrongUsage(f"--egress {number} is not a TCP port", hint="a number from 1 to 65535")
    return tuple(dict.fromkeys(numbers))


def count(number: int, flag: str) -> int:
    if not 1 <= number <= 100_000:
        raise WrongUsage(f"{flag} {number} is not between 1 and 100000")
    return number
