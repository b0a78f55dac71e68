"""A log that is made to hold up the search for walls: the wall at its end is still named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.test_denials import FAILED, PLAY, explain

# Only a guard: patterns that go back and forth in such a log took hours.
pytestmark = pytest.mark.timeout(120)

SIZE = 1 << 20
REPEATED = {
    "slashes": "/",
    "letters": "/a",
    "paths": "/a/b ",
    "dots": "/.",
    "one path": "a",
    "quotes": "/a'",
    "backslashes": "/a\\",
    "colons": "/a::",
    "spaces": "/a        ",
    "empty lines": "/a\n",
    "blank": " ",
    "not there": "no such file ",
    "denied": "permission denied: ",
    "denied quoted": "permission denied: '",
    "connects": "connect(",
    "closed connects": "connect()",
    "connects and lines": "connect()\n",
    "connects and escapes": "connect()\\n^~ ",
    "sockets": "connect to host x",
    "sockets without end": "connect to ",
    "ports": "connect to x port ",
    "numbers": "dial tcp 1:1",
    "dials": "dial tcp ",
    "dials of colons": "dial tcp :::::::::::::::",
    "urls": "urlopen error ",
}
PORT = "\ndial tcp 192.0.2.1:8080: connect: permission denied\n"


@pytest.mark.parametrize("unit", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize("start", ["", "/", "connect to ", "dial tcp ", "connect()", "no such file: /"])
def test_a_hostile_log_hides_no_port(unit: str, start: str) -> None:
    log = (start + unit * (SIZE // len(unit)))[: SIZE - len(PORT)] + PORT
    verdict = explain(log, PLAY)
    assert verdict.reason == "apply failed (the job may not connect to TCP port 8080)"


@pytest.mark.parametrize("unit", [unit for name, unit in REPEATED.items() if name != "numbers"])
def test_a_hostile_log_hides_no_path(unit: str, tmp_path: Path) -> None:
    hidden = tmp_path / "cloud.json"
    hidden.touch()
    said = f"\ncat: {hidden}: No such file or directory\n"
    log = (unit * (SIZE // len(unit)))[: SIZE - len(said)] + said
    assert f"the job can't see {hidden}, which lies outside" in explain(log).reason


@pytest.mark.parametrize("unit", REPEATED.values(), ids=REPEATED)
def test_a_hostile_log_makes_up_no_wall(unit: str) -> None:
    assert explain(unit * (SIZE // len(unit)), PLAY) == FAILED


@pytest.mark.parametrize("log", ["/a" + "'" * (SIZE // 2) + " " * (SIZE // 2), "/a" + "'" * SIZE, "/a" + " " * SIZE])
def test_a_path_that_quotes_and_blanks_follow_is_left_behind(log: str) -> None:
    assert explain(log) == FAILED
