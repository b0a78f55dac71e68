"""When a cron schedule fires: reading its six fields, and their wall times as instants of a zone."""

from __future__ import annotations

import difflib
import math
import re
import zoneinfo
from datetime import UTC, datetime, timedelta
from typing import NoReturn
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from exocomp.errors import Bug, WrongUsage

MISSED_CAP = 100

# (name, allowed values, lowest, highest) in the order of an expression
_FIELDS = (
    ("seconds", "0-59", 0, 59),
    ("minutes", "0-59", 0, 59),
    ("hours", "0-23", 0, 23),
    ("day of month", "1-31, L (last day) or LW (last weekday)", 1, 31),
    ("month", "1-12 or JAN-DEC", 1, 12),
    ("day of week", "0-7 or SUN-SAT (0 and 7 are Sunday), MON#2 (the second) or 5L (the last)", 0, 7),
)
_NICKNAMES = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_LONGEST = 1000
# ASCII alone: str.split would also part at no-break spaces and at the control characters 1c to 1f.
_BLANKS = re.compile(r"[ \t\n\r\f\v]+")
_PRINTABLE = re.compile(r"[!-~]+")
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")
# Files beside the zones on many a machine: its own setting, copies, and one that counts leap seconds.
_NO_ZONE = re.compile(r"(posix|right)/.*|localtime|posixrules|Factory")
_SECOND = timedelta(seconds=1)
# The calendar has the years 1 to 9999; a margin keeps every zone's wall time within it.
_FIRST = int(datetime(2, 1, 1, tzinfo=UTC).timestamp())
_LAST = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp())
# Within these 50 years 29 February falls on each day of the week, as the last and as the fifth of its kind.
_EPOCH = datetime(2000, 1, 1)


class Cron(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that `parse` accepted: six fields with single spaces between them, and an IANA zone."""

    text: str
    zone: str


def parse(expression: str, zone: str = "UTC") -> Cron:
    """Raises WrongUsage, which names the field and the value, or the zone; the grammar is docs/reference/cron.md."""
    if len(expression) > _LONGEST:
        raise WrongUsage(f"a schedule of {len(expression)} characters is too long", hint=f"at most {_LONGEST}")
    fields = [field for field in _BLANKS.split(expression) if field]
    for number, field in enumerate(fields):
        if not _PRINTABLE.fullmatch(field):
            where = f"in the {_FIELDS[number][0]} field" if len(fields) == len(_FIELDS) else "in a schedule"
            strange = next(each for each in field if not _PRINTABLE.fullmatch(each))
            what = f"{field!r} {where} holds {strange!r} (U+{ord(strange):04X})"
            raise WrongUsage(what, hint="write it with ASCII letters, digits and blanks alone")
    text = " ".join(fields)
    if len(fields) != len(_FIELDS):
        _refuse_count(text, len(fields))
    for number in range(len(_FIELDS)):
        _check_steps(number, fields[number])
    try:
        calendar = CronSim(text, _EPOCH)
        possible = "*" in (fields[3], fields[5]) or next(calendar, None) is not None
    except CronSimError:
        _refuse_field(fields)
        possible = False
    if not possible:
        what = f"schedule {text!r} never fires: no year has such a day"
        hint = f"day of month {fields[3]!r}, month {fields[4]!r} and day of week {fields[5]!r} never meet"
        raise WrongUsage(what, hint=hint)
    _check_zone(zone)
    return Cron(text=text, zone=zone)


def next_fire(cron: Cron, after: float) -> float | None:
    """Unix seconds of the first fire strictly later than `after`, a whole second; None if the calendar ends first."""
    if math.isnan(after):
        raise Bug("no schedule can be asked what follows nan")
    if after >= _LAST:
        return None
    start, zone = math.floor(max(after, _FIRST)), ZoneInfo(cron.zone)
    # As in vixie cron, a field that begins with `*` is a wildcard; here the hours alone decide (decision 8).
    search = _elapsed if cron.text.split(" ")[2].startswith("*") else _walled
    try:
        found = search(cron.text, zone, start)
    except OverflowError:
        return None
    return None if found is None else float(found)


def next_fires(cron: Cron, after: float, count: int) -> tuple[float, ...]:
    """At most `count` fires, in order."""
    fires: list[float] = []
    while len(fires) < count and (fire := next_fire(cron, fires[-1] if fires else after)) is not None:
        fires.append(fire)
    return tuple(fires)


def latest_missed(cron: Cron, since: float, now: float) -> tuple[float | None, int]:
    """The latest fire in (since, now], and how many there were, counted up to MISSED_CAP; a few ms at most."""
    found: float | None = None
    for count in range(MISSED_CAP):
        fire = next_fire(cron, since if found is None else found)
        if fire is None or fire > now:
            return found, count
        found = fire
    now, back = min(now, _LAST), 1.0
    while (latest := next_fire(cron, now - back)) is None or latest > now:
        back *= 2
    quiet_from = now - back / 2
    while quiet_from - latest >= 1:
        middle = (latest + quiet_from) / 2
        fire = next_fire(cron, middle)
        if fire is None or fire > now:
            quiet_from = middle
        else:
            latest = fire
    return latest, MISSED_CAP


def _walled(text: str, zone: ZoneInfo, after: int) -> int | None:
    """Each wall time once: at its first pass, or at the end of the gap that skips it."""
    wall = _wall(zone, after)
    while (found := next(CronSim(text, wall), None)) is not None:
        early, late = _passes(zone, found)
        fire = early if early <= late else _turn(zone, late, early)
        if fire > after:
            return fire
        # `after` lies in the second pass of a repeated stretch: go on where that stretch ends.
        wall = max(found, _wall(zone, _turn(zone, early, late) - 1))
    return None


def _elapsed(text: str, zone: ZoneInfo, after: int) -> int | None:
    """Each instant whose wall time matches: both passes of a repeated one, none of a skipped one."""
    wall = _wall(zone, after)
    early, late = _passes(zone, wall)
    if early == after < late:
        turn = _turn(zone, early, late)
        found = next(CronSim(text, wall), None)
        if found is not None and found <= _wall(zone, turn - 1):
            return early + round((found - wall).total_seconds())
        after, wall = turn - 1, _wall(zone, turn) - _SECOND
    while (found := next(CronSim(text, wall), None)) is not None:
        early, late = _passes(zone, found)
        if early > late:
            wall = max(found, _wall(zone, _turn(zone, late, early)) - _SECOND)
        elif late > after:
            return early if early > after else late
        else:
            wall = found
    return None


def _wall(zone: ZoneInfo, instant: int) -> datetime:
    """The zone's wall time, without a zone."""
    return datetime.fromtimestamp(instant, zone).replace(tzinfo=None, fold=0)


def _passes(zone: ZoneInfo, wall: datetime) -> tuple[int, int]:
    """Its instants by PEP 495: equal as a rule, ascending where it's repeated, descending where it's skipped."""
    first, second = (wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    return round(first), round(second)


def _turn(zone: ZoneInfo, low: int, high: int) -> int:
    """The first instant in (low, high] with another offset than `low` has."""
    offset = datetime.fromtimestamp(low, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high


def _refuse_count(text: str, count: int) -> NoReturn:
    has = (
        f"schedule {text!r} has {count} field{'s' if count > 1 else ''}"
        if count
        else "an empty schedule has 0 fields"
    )
    if count == 5:
        hint = f"with second 0 it is '0 {text}'"
    elif text.lower() in _NICKNAMES:
        hint = f"write {_NICKNAMES[text.lower()]!r}"
    else:
        hint = "the order is: seconds minutes hours day-of-month month day-of-week"
    raise WrongUsage(f"{has}: it takes exactly 6 fields, seconds first", hint=hint)


def _check_steps(number: int, field: str) -> None:
    """Refuses steps that cronsim takes and that would not do what they seem to say."""
    name, _, lowest, highest = _FIELDS[number]
    for term in field.split(","):
        start, slash, step = term.partition("/")
        if slash and start.upper() in ("L", "LW"):
            raise WrongUsage(f"{term!r} in the {name} field has a step after a single day", hint=f"write {start!r}")
        size = 7 if name == "day of week" else highest - lowest + 1
        if step.isdecimal() and int(step) > size:
            what = f"{term!r} in the {name} field has a step above {size}, the number of its values"
            raise WrongUsage(
                what, hint="a field starts anew each time round, so a longer step would count for nothing"
            )


def _refuse_field(fields: list[str]) -> None:
    """Names the first value that cannot be read; returns if each can be, by itself."""
    for number, (name, allowed, lowest, highest) in enumerate(_FIELDS):
        for term in fields[number].split(","):
            if _reads(number, term):
                continue
            what, hint = (
                f"{term or fields[number]!r} in the {name} field",
                "a value, a range 1-5 or a step */10; lists 1,5",
            )
            start, _, end = term.partition("/")[0].partition("-")
            if _reads(number, f"{end}-{start}"):
                hint = f"write it as two ranges: '{start}-{highest},{lowest}-{end}'"
                raise WrongUsage(f"{what} runs backward", hint=hint)
            raise WrongUsage(f"{what} is not understood: it takes {allowed}", hint=hint)


def _reads(number: int, term: str) -> bool:
    alone = [term or "," if number == each else "*" for each in range(len(_FIELDS))]
    try:
        CronSim(" ".join(alone), _EPOCH)
    except CronSimError:
        return False
    return True


def _check_zone(zone: str) -> None:
    if _ZONE.fullmatch(zone) and not _NO_ZONE.fullmatch(zone):
        try:
            ZoneInfo(zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
        else:
            return
    zones = sorted(each for each in zoneinfo.available_timezones() if not _NO_ZONE.fullmatch(each))
    known = {form: each for each in zones for form in (each.casefold(), each.casefold().rpartition("/")[2])}
    near = difflib.get_close_matches(zone.casefold()[:80], known, n=1, cutoff=0.75)
    hint = f"did you mean {known[near[0]]}?" if near else "give an IANA name such as Europe/Berlin, or UTC"
    raise WrongUsage(f"zone {zone!r} is not known", hint=hint)
