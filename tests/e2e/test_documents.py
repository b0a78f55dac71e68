"""The documents' commands, run as they are printed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from exocomp.cli.main import NOUNS
from exocomp.protocol.approving import ApprovalAsked
from exocomp.protocol.fired import RuleFired
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


@pytest.fixture
def edge(home: Home) -> Home:
    """The workspace edge, applied, with one host that needs no ssh; dns beside it, and the playbooks."""
    play = "- hosts: all\n  gather_facts: false\n  tasks: [{ansible.builtin.command: 'true'}]\n"
    for name in ("site.yml", "converge.yml", "motd.yml"):
        (home.work / name).write_text(play)
    (home.work / "hosts.yml").write_text("all: {hosts: {old1: {ansible_connection: local}}}\n")
    output = 'value = { all = { hosts = { here = { ansible_connection = "local" } } } }'
    home.serve()
    for name in ("edge", "dns"):
        (home.work / name).mkdir()
        (home.work / name / "main.tf").write_text(f'output "ansible_inventory" {{\n  {output}\n}}\n')
        home.run("workspace", "add", name, name)
    home.run("workspace", "apply", "edge", "--wait")
    return home


def test_the_how_to_of_schedules_does_what_it_says(edge: Home) -> None:
    add, use = blocks("docs/howto/schedule-a-converge.md")
    assert "fleet-converge fires next at" in typed(edge, add)
    assert "here  changed  ok=1" in typed(edge, use)
    assert edge.json("schedule", "list")["schedules"][0]["schedule"]["paused"] is False


def test_the_how_to_of_rules_does_what_it_says(edge: Home) -> None:
    (add,) = blocks("docs/howto/answer-events-with-rules.md")
    typed(edge, add)
    edge.run("workspace", "apply", "edge", "--wait")
    for name in ("converge", "dns"):
        fired = edge.wait_for(lambda event, name=name: isinstance(event, RuleFired) and event.rule == name, name)
        edge.run("provision", "watch", fired.event.workflow or "")
    assert edge.json("playbook", "rule", "history", "greet")["fires"] == []


def test_the_how_to_of_own_inventories_does_what_it_says(edge: Home) -> None:
    add, diff = blocks("docs/howto/keep-an-inventory-of-your-own.md")
    (edge.base / "home" / ".ssh").mkdir(mode=0o700)
    key = edge.base / "home" / ".ssh" / "id_ed25519"
    key.write_text("a key\n")
    key.chmod(0o600)
    assert "old1" in typed(edge, add)
    (edge.work / "hosts.yml").write_text("all: {hosts: {new1: {ansible_connection: local}}}\n")
    edge.run("inventory", "add", "legacy", "hosts.yml")
    assert "new1" in typed(edge, diff)


def test_the_how_to_of_approvals_does_what_it_says(edge: Home) -> None:
    ask, decide = blocks("docs/howto/approve-plans.md")
    watching = edge.spawn(*ask.split()[1:])
    edge.wait_for(lambda event: isinstance(event, ApprovalAsked), "a question")
    (open_one,) = edge.json("approval", "list")["approvals"]
    lines = [line.replace("ap_06f2", open_one["id"]) for line in decide.splitlines()]
    typed(edge, "\n".join(lines[:-1]))
    out, _ = watching.communicate(timeout=60)
    assert watching.returncode == 0, out
    assert f"decide: exocomp approval decide {open_one['id']}" in out


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
