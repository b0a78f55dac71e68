"""The documents' commands, run as they are printed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from exocomp.cli.main import NOUNS
from tests.lab.home import Home

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home() -> Iterator[Home]:
    home = Home()
    yield home
    home.close()


def blocks(document: str) -> list[str]:
    """The blocks without a language: what a person types."""
    return re.findall(r"^```\n(.*?)^```$", (ROOT / document).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def typed(home: Home, script: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=home.work,
        env=home.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{done.stdout}\n{home.daemon_log()}"
    return done.stdout


def test_the_tutorial_does_what_it_says(home: Home) -> None:
    home.serve()
    first, retry = blocks("docs/tutorial/first-chain.md")
    assert "here  ok  ok=1" in typed(home, first)
    view = home.view()
    assert {each.step.state.value for each in view.steps} == {"succeeded"}

    again = next(line for line in first.splitlines() if line.startswith("exocomp provision run"))
    typed(home, again)
    assert [host.changed for host in home.view().steps[-1].hosts] == [0]

    play = home.work / "demo" / "site.yml"
    sound = play.read_text()
    play.write_text(sound.replace("ansible.builtin.command", "ansible.builtin.nothing"))
    with pytest.raises(AssertionError):
        typed(home, again)
    assert home.states()["configure"] == "failed"
    play.write_text(sound)
    typed(home, retry)
    assert set(home.states().values()) == {"succeeded"}


def test_every_command_in_a_document_exists(home: Home) -> None:
    spoken: set[tuple[str, str]] = set()
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        typed_out = "\n".join(blocks(str(path.relative_to(ROOT))))
        spoken |= set(re.findall(r"^exocomp ([a-z][a-z-]*)(?: ([a-z-]+))?", typed_out, re.MULTILINE))
        spoken |= set(re.findall(r"`exocomp ([a-z][a-z-]*)(?: ([a-z-]+))?[^`]*`", path.read_text("utf-8")))
    assert {noun for noun, _ in spoken} <= {*NOUNS, "help"}
    for noun, verb in sorted(spoken):
        if verb and noun not in ("help", "serve", "events"):
            home.run(noun, verb, "--help")
