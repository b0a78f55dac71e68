"""Schedules: what is read and refused, and their fires against a calendar that walks the clock minute by minute."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exocomp.errors import Bug, WrongUsage
from exocomp.schedule import MISSED_CAP, Cron, latest_missed, next_fire, next_fires, parse

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
# From here 28 years hold each date on each day of the week.
CYCLE = date(2000, 1, 1)
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
# Weeks in which clocks change: by an hour, half, two, a day; at midnight, at 00:01; backward in summer; for good.
WEEKS = [
    ("UTC", "2026-12-28"),
    ("Asia/Kolkata", "2028-02-26"),
    ("Europe/Berlin", "2027-03-26"),
    ("Europe/Berlin", "2026-10-23"),
    ("Europe/Dublin", "2026-03-27"),
    ("Europe/Dublin", "2026-10-23"),
    ("America/New_York", "2026-03-06"),
    ("America/New_York", "2026-10-30"),
    ("America/Santiago", "2026-09-04"),
    ("America/Santiago", "2026-04-03"),
    ("America/Havana", "2027-03-12"),
    ("America/Caracas", "2016-04-29"),
    ("America/St_Johns", "2006-10-27"),
    ("America/St_Johns", "2007-03-09"),
    ("Antarctica/Troll", "2027-03-26"),
    ("Antarctica/Troll", "2026-10-23"),
    ("Africa/Casablanca", "2026-02-13"),
    ("Africa/Casablanca", "2026-03-20"),
    ("Asia/Beirut", "2027-03-26"),
    ("Asia/Beirut", "2026-10-23"),
    ("Asia/Pyongyang", "2018-05-03"),
    ("Australia/Lord_Howe", "2026-10-02"),
    ("Australia/Lord_Howe", "2027-04-02"),
    ("Europe/Moscow", "2014-10-24"),
    ("Pacific/Apia", "2011-12-28"),
    ("Pacific/Kwajalein", "1993-08-19"),
]


class Week:
    """Each minute of nine days: its instant and what the zone's clock shows, read off the clock alone."""

    def __init__(self, zone: str, start: str) -> None:
        self.zone = zone
        first = int(datetime.fromisoformat(start).replace(tzinfo=UTC).timestamp()) - 86400
        self.instants = [first + 60 * number for number in range(9 * 1440)]
        clock = ZoneInfo(zone)
        self.walls = [datetime.fromtimestamp(each, clock).replace(tzinfo=None, fold=0) for each in self.instants]
        self.earliest: dict[datetime, int] = {}
        for instant, wall in zip(self.instants, self.walls, strict=True):
            self.earliest.setdefault(wall, instant)
        pairs = list(zip(pairwise(self.walls), self.instants[1:], strict=True))
        self.turns = [instant for (old, new), instant in pairs if new - old != MINUTE]
        self.gaps = [(old, new, instant) for (old, new), instant in pairs if new - old > MINUTE]

    def instant(self, wall: datetime) -> tuple[int, bool] | None:
        """When the clock first shows it, or has first gone past it; and whether it is skipped."""
        if (instant := self.earliest.get(wall)) is not None:
            return instant, False
        return next(((instant, True) for old, new, instant in self.gaps if old < wall < new), None)


class Schedule(msgspec.Struct, frozen=True):
    text: str
    seconds: list[int]
    minutes: set[int]
    hours: set[int]
    on_day: Callable[[date], bool]

    def fires(self, week: Week, after: float) -> Iterator[int]:
        """In order, as far as the week reaches."""
        every_hour = self.text.split()[2].startswith("*")
        last = after
        for instant, skipped in self.elapsed(week, after) if every_hour else self.walled(week, after):
            for second in self.seconds:
                fire = instant if skipped else instant + second
                if fire > last:
                    yield fire
                    last = fire

    def elapsed(self, week: Week, after: float) -> Iterator[tuple[int, bool]]:
        for number in range(max(0, bisect_left(week.instants, after) - 1), len(week.instants)):
            if self.shows(week.walls[number]):
                yield week.instants[number], False

    def walled(self, week: Week, after: float) -> Iterator[tuple[int, bool]]:
        day = week.walls[0].date()
        while day <= week.walls[-1].date():
            if self.on_day(day):
                for hour in sorted(self.hours):
                    for minute in sorted(self.minutes):
                        found = week.instant(datetime(day.year, day.month, day.day, hour, minute))
                        if found and found[0] + 60 > after:
                            yield found
            day += DAY

    def shows(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self.on_day(wall.date())


def one_field(rng: random.Random, low: int, high: int, star: float) -> tuple[str, set[int]]:
    values = list(range(low, high + 1))
    if rng.random() < star:
        return "*", set(values)
    shape = rng.randrange(6)
    first, last = sorted(rng.sample(values, 2))
    step = rng.randint(1, max(2, len(values) // 3))
    if shape == 0:
        return f"*/{step}", set(values[::step])
    if shape == 1:
        return f"{first}-{last}", set(range(first, last + 1))
    if shape == 2:
        return f"{first}-{last}/{step}", set(range(first, last + 1, step))
    if shape == 3:
        some = rng.sample(values, min(len(values), rng.randint(2, 4)))
        return ",".join(map(str, some)), set(some)
    return f"{first:02}", {first}


def one_schedule(rng: random.Random) -> Schedule:
    second, seconds = one_field(rng, 0, 59, 0.1)
    if rng.random() < 0.5:
        second, seconds = "0", {0}
    minute, minutes = one_field(rng, 0, 59, 0.2)
    hour, hours = one_field(rng, 0, 23, 0.3)
    if rng.random() < 0.4:
        hour, hours = rng.choice(
            (("2", {2}), ("0", {0}), ("1-3", {1, 2, 3}), ("23,0", {0, 23}), ("*/2", {*range(0, 24, 2)}))
        )
    dom, doms = one_field(rng, 1, 31, 0.6)
    month, months = one_field(rng, 1, 12, 0.8)
    if rng.random() < 0.1:
        dom, month = "*/2", ",".join(MONTHS)
        doms, months = set(range(1, 32, 2)), set(range(1, 13))
    dow, dows = one_field(rng, 0, 6, 0.6)
    if rng.random() < 0.3:
        named = rng.sample(DAYS, 2)
        dow, dows = ",".join(named).lower(), {DAYS.index(each) for each in named}

    def on_day(day: date) -> bool:
        of_month, of_week = day.day in doms, (day.weekday() + 1) % 7 in dows
        meets = of_month and of_week if "*" in (dom[0], dow[0]) else of_month or of_week
        return meets and day.month in months

    if not any(on_day(CYCLE + DAY * number) for number in range(28 * 366)):
        return one_schedule(rng)
    return Schedule(" ".join((second, minute, hour, dom, month, dow)), sorted(seconds), minutes, hours, on_day)


def test_two_thousand_schedules_fire_through_weeks_of_changing_clocks_as_the_clock_on_the_wall_says() -> None:
    rng = random.Random(6)
    weeks = [Week(*each) for each in WEEKS]
    compared = 0
    for number in range(2000):
        week, schedule = weeks[number % len(weeks)], one_schedule(rng)
        cron = parse(schedule.text, week.zone)
        low, high = week.instants[1440], week.instants[-1440]
        starts = [low, rng.uniform(low, high)]
        starts += [turn + rng.choice((-5400, -1, -0.5, 0, 1200, 1799.5, 3599)) for turn in week.turns]
        for after in starts:
            expected = list(islice(schedule.fires(week, after), 10))
            found = next_fires(cron, after, len(expected) + 1)
            assert list(found[: len(expected)]) == expected, (schedule.text, week.zone, after)
            if len(expected) < 10:
                assert all(each > week.instants[-1] for each in found[len(expected) :]), (
                    schedule.text,
                    week.zone,
                    after,
                )
            if expected:
                assert latest_missed(cron, after, expected[-1] + 0.5) == (expected[-1], len(expected))
            compared += len(expected)
    assert compared > 20_000


zones = st.sampled_from(sorted({zone for zone, _ in WEEKS}))
instants = st.floats(min_value=0, max_value=4.2e9)


@st.composite
def crons(draw: st.DrawFn) -> Cron:
    return parse(one_schedule(random.Random(draw(st.integers(0, 2**32)))).text, draw(zones))


@given(crons(), instants)
def test_fires_only_ever_increase_and_none_is_left_out_between_two(cron: Cron, after: float) -> None:
    fires = next_fires(cron, after, 5)
    assert len(fires) == 5
    for before, fire in pairwise((after, *fires)):
        assert fire > before
        assert fire == int(fire)
        assert next_fire(cron, (before + fire) / 2) == fire
        assert next_fire(cron, fire - 0.001) == fire


@given(crons(), instants, st.floats(min_value=0, max_value=1e8))
def test_nothing_fires_between_the_latest_missed_and_now(cron: Cron, since: float, down: float) -> None:
    latest, count = latest_missed(cron, since, since + down)
    following = next_fire(cron, since if latest is None else latest)
    assert following is not None
    assert following > since + down
    assert (count == 0) == (latest is None)
    assert latest is None or since < latest <= since + down


@given(
    zones.filter(lambda zone: zone != "Pacific/Kwajalein"), st.times(), st.dates(date(2012, 2, 1), date(2100, 1, 1))
)
def test_a_daily_time_fires_once_on_every_date(zone: str, at: datetime, start: date) -> None:
    cron = parse(f"{at.second} {at.minute} {at.hour} * * *", zone)
    clock = ZoneInfo(zone)
    after = datetime(start.year, start.month, start.day, 12, tzinfo=clock).timestamp()
    fired = [datetime.fromtimestamp(each, clock) for each in next_fires(cron, after, 230)]
    assert all(later.date() - sooner.date() == DAY for sooner, later in pairwise(fired))
    for each in fired:
        wanted = each.replace(hour=at.hour, minute=at.minute, second=at.second, fold=0)
        skipped = wanted.astimezone(UTC).astimezone(clock).replace(tzinfo=None) != wanted.replace(tzinfo=None)
        assert each.fold == 0
        assert skipped or each == wanted
        assert not skipped or (each - timedelta(seconds=1)).astimezone(UTC).astimezone(clock) != each


def fires(expression: str, zone: str, after: str, count: int) -> list[str]:
    start = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone)).timestamp()
    found = next_fires(parse(expression, zone), start, count)
    return [datetime.fromtimestamp(each, ZoneInfo(zone)).strftime("%d %H:%M:%S%z") for each in found]


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        (
            "0 30 1-3 * * *",
            "Europe/Berlin",
            "2027-03-28",
            ["28 01:30:00+0100", "28 03:00:00+0200", "28 03:30:00+0200"],
        ),
        (
            "0 30 1-3 * * *",
            "Europe/Berlin",
            "2026-10-25",
            ["25 01:30:00+0200", "25 02:30:00+0200", "25 03:30:00+0100"],
        ),
        ("0 0 2,3 * * *", "Europe/Berlin", "2027-03-28", ["28 03:00:00+0200", "29 02:00:00+0200"]),
        ("0 */10 2 * * *", "Europe/Berlin", "2027-03-28", ["28 03:00:00+0200", "29 02:00:00+0200"]),
        ("0 0 */2 * * *", "Europe/Berlin", "2027-03-28", ["28 04:00:00+0200", "28 06:00:00+0200"]),
        ("0 0 0 * * *", "America/Santiago", "2026-09-05T12:00", ["06 01:00:00-0300", "07 00:00:00-0300"]),
        ("0 30 23 * * *", "America/Santiago", "2026-04-04T12:00", ["04 23:30:00-0300", "05 23:30:00-0400"]),
        ("0 0 0 * * *", "Asia/Beirut", "2027-03-27T12:00", ["28 01:00:00+0300", "29 00:00:00+0300"]),
        ("0 15 2 * * *", "Australia/Lord_Howe", "2026-10-04", ["04 02:30:00+1100", "05 02:15:00+1100"]),
        ("0 45 1 * * *", "Australia/Lord_Howe", "2027-04-04", ["04 01:45:00+1100", "05 01:45:00+1030"]),
        ("0 0 12 * * *", "Pacific/Apia", "2011-12-29T13:00", ["31 00:00:00+1400", "31 12:00:00+1400"]),
        ("0 30 1 * * *", "Europe/Dublin", "2026-03-29", ["29 02:00:00+0100", "30 01:30:00+0100"]),
        ("0 30 1 * * *", "Europe/Dublin", "2026-10-25", ["25 01:30:00+0100", "26 01:30:00+0000"]),
        ("0 30 1 * * *", "Europe/Moscow", "2014-10-26", ["26 01:30:00+0400", "27 01:30:00+0300"]),
        ("0 45 2 * * *", "America/Caracas", "2016-05-01", ["01 03:00:00-0400", "02 02:45:00-0400"]),
    ],
)
def test_a_wall_time_that_a_zone_skips_or_repeats_fires_once(
    expression: str, zone: str, after: str, expected: list[str]
) -> None:
    assert fires(expression, zone, after, len(expected)) == expected


def test_whoever_asks_within_the_second_pass_of_an_hour_gets_the_next_day() -> None:
    second_pass = datetime(2026, 10, 25, 1, 10, tzinfo=UTC).timestamp()
    for expression in ("0 30 2 * * *", "* * 2 * * *"):
        fire = next_fire(parse(expression, "Europe/Berlin"), second_pass)
        assert fire is not None
        assert fire > second_pass + 80_000
    assert next_fire(parse("0 30 2-3 * * *", "Europe/Berlin"), second_pass) == second_pass + 80 * 60
    assert next_fire(parse("0 30 * * * *", "Europe/Berlin"), second_pass) == second_pass + 20 * 60


@pytest.mark.parametrize(
    ("expression", "field", "value"),
    [
        ("*/61 * * * * *", "seconds", "*/61"),
        ("*/-5 * * * * *", "seconds", "*/-5"),
        ("5/ * * * * *", "seconds", "5/"),
        ("/5 * * * * *", "seconds", "/5"),
        ("H * * * * *", "seconds", "H"),
        ("R * * * * *", "seconds", "R"),
        ("0x5 * * * * *", "seconds", "0x5"),
        ("1e1 * * * * *", "seconds", "1e1"),
        ("1_0 * * * * *", "seconds", "1_0"),
        (f"{'9' * 900} * * * * *", "seconds", "9" * 900),
        (f"*/{'9' * 900} * * * * *", "seconds", "*/" + "9" * 900),
        ("0 1,2,60 * * * *", "minutes", "60"),
        ("0 , * * * *", "minutes", ","),
        ("0 5, * * * *", "minutes", "5,"),
        ("0 0-60 * * * *", "minutes", "0-60"),
        ("0 1-2-3 * * * *", "minutes", "1-2-3"),
        ("0 */90 * * * *", "minutes", "*/90"),
        ("0 0 */25 * * *", "hours", "*/25"),
        ("0 0 JAN * * *", "hours", "JAN"),
        ("0 0 22-2/2 * * *", "hours", "22-2/2"),
        ("0 0 0 32 * *", "day of month", "32"),
        ("0 0 0 ? * *", "day of month", "?"),
        ("0 0 0 15W * *", "day of month", "15W"),
        ("0 0 0 L-3 * *", "day of month", "L-3"),
        ("0 0 0 L/2 * *", "day of month", "L/2"),
        ("0 0 0 * 0 *", "month", "0"),
        ("0 0 0 * FEBR *", "month", "FEBR"),
        ("0 0 0 * NOV-FEB *", "month", "NOV-FEB"),
        ("0 0 0 * * 8", "day of week", "8"),
        ("0 0 0 * * */8", "day of week", "*/8"),
        ("0 0 0 * * MONDAY", "day of week", "MONDAY"),
        ("0 0 0 * * FRI-MON", "day of week", "FRI-MON"),
        ("0 0 0 * * MON#6", "day of week", "MON#6"),
        ("0 0 0 * * FRIL", "day of week", "FRIL"),
        ("0 0 0 * * L", "day of week", "L"),
        ("0 0 0 * * ſun", "day of week", "ſun"),
        ("0 0 0 * * ５", "day of week", "５"),
        ("0 0 0 1\x1f2 * *", "day of month", "1\\x1f2"),
        ("0 0\0 0 * * *", "minutes", "0\\x00"),
    ],
)
def test_a_value_out_of_the_grammar_is_refused_by_its_field(expression: str, field: str, value: str) -> None:
    with pytest.raises(WrongUsage) as refused:
        parse(expression)
    assert f"'{value}' in the {field} field " in refused.value.what
    assert refused.value.hint


@pytest.mark.parametrize("blank", ["\xa0", "\u2003", "\u3000", "\x1c", "\x85", "\u2028", "\ufeff"])
def test_a_blank_that_is_not_ascii_is_refused_by_its_number(blank: str) -> None:
    with pytest.raises(WrongUsage, match=rf"U\+{ord(blank):04X}"):
        parse(f"0{blank}0 12 * * *")


def test_blanks_of_every_ascii_kind_are_one_space() -> None:
    assert parse("\n 0\t0\r\n12  *\v*\f* \n").text == "0 0 12 * * *"


def test_a_list_of_all_that_a_field_can_hold_is_read_and_a_text_without_end_is_not() -> None:
    sixty = ",".join(map(str, range(60)))
    assert next_fires(parse(f"{sixty} {sixty} * * * *"), 0, 2) == (1.0, 2.0)
    with pytest.raises(WrongUsage, match="too long"):
        parse("0," * 100_000 + "0 * * * * *")


@pytest.mark.parametrize(
    "days", ["31 2 *", "30 2 *", "30,31 FEB *", "31 4,6,9,11 *", "31 2 */2", "*/30 * MON#3", "*/30 2 SUN#2"]
)
def test_a_day_that_no_year_has_is_refused(days: str) -> None:
    with pytest.raises(WrongUsage, match="never fires"):
        parse(f"0 0 0 {days}")


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("0 0 0 29 2 *", 2024, ["2024-02-29", "2028-02-29", "2032-02-29"]),
        ("0 0 0 29 2 *", 2097, ["2104-02-29", "2108-02-29"]),
        ("0 0 0 29 2 */7", 2077, ["2088-02-29", "2128-02-29"]),
        ("0 0 0 * 2 MON#5", 2017, ["2044-02-29", "2072-02-29"]),
        ("0 0 0 31 2 MON", 2027, ["2027-02-01", "2027-02-08"]),
        ("0 0 0 L 2 *", 2027, ["2027-02-28", "2028-02-29"]),
        ("0 0 0 LW 1 *", 2027, ["2027-01-29", "2028-01-31"]),
        ("0 0 0 * * 5L", 2027, ["2027-01-29", "2027-02-26"]),
        ("0 0 0 * * tue#1", 2027, ["2027-01-05", "2027-02-02"]),
        ("0 0 0 20/5 1 *", 2027, ["2027-01-20", "2027-01-25", "2027-01-30", "2028-01-20"]),
    ],
)
def test_rare_days_are_found(expression: str, after: int, expected: list[str]) -> None:
    start = datetime(after, 1, 1, tzinfo=UTC).timestamp() - 1
    found = next_fires(parse(expression), start, len(expected))
    assert [datetime.fromtimestamp(each, UTC).date().isoformat() for each in found] == expected


@pytest.mark.parametrize(
    "zone",
    [
        *("", " ", "Foo/Bar", "Europe", "../../etc/passwd", "/etc/localtime", "localtime", "posixrules", "tzdata.zi"),
        *("right/Europe/Berlin", "Europe/Berlin/", "Europe//Berlin", "Europe/../Europe/Berlin", "Europe/Berlin "),
        *("utc", "CET-1CEST,M3.5.0,M10.5.0", "+02:00", "x" * 5000, "\ud800", "Ｕ", "a\0b"),
    ],
)
def test_a_zone_that_is_no_iana_name_is_refused_by_name(zone: str) -> None:
    with pytest.raises(WrongUsage) as refused:
        parse("0 0 0 * * *", zone)
    assert refused.value.what == f"zone {zone!r} is not known"
    assert refused.value.hint


@pytest.mark.parametrize(
    ("zone", "meant"), [("utc", "UTC"), ("europe/berlin", "Europe/Berlin"), ("tokyo", "Asia/Tokyo")]
)
def test_a_zone_nearly_right_is_met_with_the_one_that_is_meant(zone: str, meant: str) -> None:
    with pytest.raises(WrongUsage) as refused:
        parse("0 0 0 * * *", zone)
    assert refused.value.hint == f"did you mean {meant}?"


def test_zones_are_known_on_a_machine_that_has_none() -> None:
    program = "from exocomp.schedule import parse; print(parse('0 0 0 * * *', 'Europe/Berlin').zone)"
    env = {**os.environ, "PYTHONTZPATH": ""}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "Europe/Berlin"


def test_part_of_a_second_counts_as_that_second_begun() -> None:
    every = parse("* * * * * *")
    assert [next_fire(every, after) for after in (9.0, 9.001, 9.999, 10.0, -0.5)] == [10.0, 10.0, 10.0, 11.0, 0.0]


def test_times_out_of_the_calendar_are_answered_and_nan_is_a_bug() -> None:
    for expression in ("0 30 2 * * *", "0 30 * 29 2 *", "* * * * * *"):
        for zone in ("UTC", "Pacific/Apia", "America/New_York"):
            cron = parse(expression, zone)
            assert next_fire(cron, math.inf) is next_fire(cron, 1e30) is None
            first = next_fire(cron, -math.inf)
            assert first is not None
            assert first == next_fire(cron, -1e30)
            assert first < -6.2e10
            end_of_9998 = 253370764800
            assert all(each <= end_of_9998 + 86400 for each in next_fires(cron, end_of_9998 - 3600, 3))
    with pytest.raises(Bug):
        next_fire(parse("* * * * * *"), math.nan)


def test_the_latest_of_a_month_of_missed_seconds_is_exact_and_the_count_stops_at_its_cap() -> None:
    month = 31 * 86400
    assert latest_missed(parse("* * * * * *"), 1.8e9, 1.8e9 + month + 0.7) == (1.8e9 + month, MISSED_CAP)
    assert latest_missed(parse("0 0 * * * *"), 1.8e9, 1.8e9) == (None, 0)
    assert latest_missed(parse("0 0 * * * *"), 1.8e9, 1.8e9 - 500) == (None, 0)
    assert latest_missed(parse("0 0 * * * *"), 1.8e9 - 1, 1.8e9) == (1.8e9, 1)
    early = parse("* * * 1 1 *")
    new_year = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
    assert latest_missed(early, new_year - 5, new_year + 200 * 86400) == (new_year + 86399, MISSED_CAP)


def test_equal_schedules_are_one_key() -> None:
    assert len({parse("0 0  12 * * *"), parse(" 0 0 12 * * *", "UTC"), parse("0 0 12 * * *", "Europe/Berlin")}) == 2
