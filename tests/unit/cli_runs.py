"""What the tests of the command line share: a home without a daemon, a call of main, a seeded ledger."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exocomp.cli import doing, main, reading
from exocomp.protocol import commands as c

Run = Callable[..., tuple[int, str, str]]
PLAY = "site.yml"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without config, a data dir without a daemon, and a playbook in the working directory."""
    for name in [name for name in os.environ if name.startswith("EXOCOMP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EXOCOMP_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("EXOCOMP_DATA_DIR", str(tmp_path / "d"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.toml").write_text("")
    (tmp_path / PLAY).write_text("[]")
    return tmp_path


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*argv: str) -> tuple[int, str, str]:
        code = main.main(argv)
        out, err = capsys.readouterr()
        assert "\x1b" not in out + err
        assert "Traceback" not in err
        return code, out, err

    return call


class Ledger:
    """Stands in for the store: answers by the query's type, and keeps what was asked and said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[type, Any] = {}
        self.replies: dict[type, Any] = {}
        self.asked: list[Any] = []
        self.said: list[Any] = []
        monkeypatch.setattr(reading, "ask", self.ask)
        monkeypatch.setattr(doing, "do", self.do)

    def ask(self, common: Any, query: Any, kind: type) -> Any:
        self.asked.append(query)
        found = self.answers[type(query)]
        found = found(query) if callable(found) else found
        assert isinstance(found, kind)
        return found

    def do(self, common: Any, command: Any, kind: type) -> Any:
        self.said.append(command)
        found = self.replies.get(type(command), c.Done(message="done"))
        assert isinstance(found, kind)
        return found


@pytest.fixture
def ledger(home: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    return Ledger(monkeypatch)
