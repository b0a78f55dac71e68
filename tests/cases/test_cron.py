"""Cron schedules of the field: what is refused and by which name, and what fires when the clocks change."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from exocomp.errors import WrongUsage
from exocomp.schedule import next_fires, parse

CASES = Path(__file__).parent / "cron"
CRONITER = json.loads((CASES / "cron-00" / "croniter_observed.json").read_text("utf-8"))
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC).timestamp()


def lines(case: str) -> list[str]:
    return (CASES / case / "cron.txt").read_text("utf-8").split("\n")[:-1]


def fires(expression: str, count: int, after: str = "2026-12-01T00:00+00:00", zone: str = "UTC") -> list[str]:
    found = next_fires(parse(expression, zone), datetime.fromisoformat(after).timestamp(), count)
    return [datetime.fromtimestamp(fire, ZoneInfo(zone)).isoformat() for fire in found]


@pytest.mark.parametrize("expression", lines("cron-01-field-count"))
def test_anything_but_six_fields_is_refused_with_their_number(expression: str) -> None:
    with pytest.raises(WrongUsage, match="6 fields, seconds first") as refused:
        parse(expression)
    count = len(expression.split())
    assert f"has {count} field" in refused.value.what
    if count == 5:
        assert f"'0 {expression}'" in refused.value.hint


def test_both_day_fields_restrict_by_or_unless_one_begins_with_a_star() -> None:
    either, friday, both, every = lines("cron-02-dom-dow")
    assert [each[:10] for each in fires(either, 4)] == ["2026-12-01", "2026-12-04", "2026-12-11", "2026-12-15"]
    assert [each[:10] for each in fires(friday, 3)] == ["2026-12-04", "2026-12-11", "2026-12-13"]
    assert [each[:10] for each in fires(both, 3)] == ["2026-12-07", "2026-12-21", "2027-01-11"]
    assert [each[:10] for each in fires(every, 3)] == ["2026-12-01", "2026-12-02", "2026-12-03"]


def test_sunday_is_0_and_7_and_its_name_and_1_to_7_is_every_day() -> None:
    *sundays, every = lines("cron-05-sunday")
    for expression in sundays:
        assert [each[:10] for each in fires(expression, 3)] == ["2026-12-06", "2026-12-13", "2026-12-20"], expression
    assert [each[:10] for each in fires(every, 7)] == [f"2026-12-0{day}" for day in range(1, 8)]


NAMED = ["seconds", "seconds", "minutes", "hours", "day of month", "month", "seconds", "seconds"]
NAMED += ["day of month", "day of month", "seconds", "seconds", "day of week"]


@pytest.mark.parametrize(("expression", "field"), list(zip(lines("cron-06-bad-values"), NAMED, strict=True)))
def test_a_bad_value_is_refused_by_its_field_and_its_text(expression: str, field: str) -> None:
    position = ["seconds", "minutes", "hours", "day of month", "month", "day of week"].index(field)
    with pytest.raises(WrongUsage) as refused:
        parse(expression)
    assert f"'{expression.split()[position]}' in the {field} field " in refused.value.what
    assert refused.value.hint


def test_tabs_and_double_spaces_are_one_space() -> None:
    assert [parse(each).text for each in lines("cron-09-whitespace")] == ["0 0 12 * * *", "0 0 12 * * *"]


def test_a_fixed_time_fires_once_and_an_hourly_one_by_elapsed_time_when_the_clocks_change() -> None:
    fixed, hourly, half_hourly = lines("cron-10-dst")
    spring, autumn = "2027-03-28T00:59:59+01:00", "2026-10-25T01:59:59+02:00"
    assert fires(fixed, 2, spring, "Europe/Berlin") == ["2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"]
    assert fires(fixed, 2, autumn, "Europe/Berlin") == ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
    assert fires(fixed, 2, autumn) == ["2026-10-25T02:30:00+00:00", "2026-10-26T02:30:00+00:00"]
    for expression, step in ((hourly, 3600), (half_hourly, 1800)):
        for start in (spring, autumn):
            first = datetime.fromisoformat(start).timestamp() + 1
            assert next_fires(parse(expression, "Europe/Berlin"), first - 1, 9) == tuple(
                first + step * number for number in range(9)
            )


def test_where_the_rules_are_the_same_the_fires_are_those_of_croniter() -> None:
    ours = {"0 0 12 */2 * MON", "0 0 12 * * 5-1", "0 0 22-2 * * *", "0 5-1 * * * *", "R * * * * *"}
    for expression, observed in CRONITER["plain"].items():
        if isinstance(observed, str) or len(expression.split()) != 6:
            with pytest.raises(WrongUsage):
                parse(expression)
        elif expression not in ours:
            assert fires(expression, len(observed)) == observed, expression


@pytest.mark.parametrize("expression", ["0 0 12 * * 5-1", "0 0 22-2 * * *", "0 5-1 * * * *"])
def test_a_range_that_runs_backward_is_refused_with_the_two_that_are_meant(expression: str) -> None:
    with pytest.raises(WrongUsage, match="runs backward") as refused:
        parse(expression)
    turned = refused.value.hint.split("'")[1]
    given = next(field for field in expression.split() if "-" in field)
    assert list(next_fires(parse(expression.replace(given, turned)), DECEMBER, 3)) == [
        datetime.fromisoformat(each).timestamp() for each in CRONITER["plain"][expression]
    ]
