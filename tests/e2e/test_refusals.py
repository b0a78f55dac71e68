"""What is refused before anything runs, and what stops where it should."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from exocomp.protocol.events import OutputsCaptured
from tests.lab.home import Home


@pytest.fixture
def home() -> Iterator[Home]:
    home = Home()
    yield home
    home.close()


def module(home: Home, text: str) -> str:
    directory = home.work / "module"
    directory.mkdir()
    (directory / "main.tf").write_text(text)
    return str(directory)


def play(home: Home) -> str:
    file = home.work / "site.yml"
    mark = home.work / "mark"
    file.write_text(f"- hosts: all\n  tasks:\n    - ansible.builtin.file: {{path: {mark}, state: touch}}\n")
    return str(file)


def test_provision_run_without_a_daemon_exits_3_and_says_what_to_do(home: Home) -> None:
    done = home.run("provision", "run", "edge", play(home), exit=3)
    assert done.stdout == ""
    assert "no daemon" in done.stderr
    assert "exocomp serve" in done.stderr
    assert not home.data.exists()


def test_a_second_daemon_on_the_data_dir_is_refused(home: Home) -> None:
    home.serve()
    done = home.run("serve", exit=6)
    assert str(home.data) in done.stderr
    home.run("workspace", "list")


def test_an_unknown_workspace_exits_5(home: Home) -> None:
    home.serve()
    done = home.run("provision", "run", "nowhere", play(home), exit=5)
    assert "nowhere" in done.stderr


def test_a_hostless_workspace_stops_after_the_apply_and_runs_no_play(home: Home) -> None:
    home.serve()
    home.run(
        "workspace", "add", "edge", module(home, 'output "region" { value = "eu" }\noutput "size" { value = 2 }\n')
    )
    done = home.run("provision", "run", "edge", play(home), "--wait", exit=1)
    states = home.states()
    assert states.pop("apply") == "succeeded"
    assert "running" not in states.values()
    assert "succeeded" not in states.values()
    assert "names no hosts" in home.view().workflow.reason
    assert "names no hosts" in done.stdout
    assert home.of(OutputsCaptured)[0].message.endswith("naming 0 host(s)")
    assert not (home.work / "mark").exists()


def test_a_module_that_is_not_valid_fails_the_apply_with_its_own_words(home: Home) -> None:
    home.serve()
    home.run("workspace", "add", "edge", module(home, 'output "x" { value = var.nothing }\n'))
    home.run("provision", "run", "edge", play(home), "--wait", exit=1)
    assert home.states()["apply"] == "failed"
    assert "undeclared" in f"{home.view().workflow.reason} {home.run('provision', 'logs').stdout}"


def test_a_missing_variable_fails_instead_of_asking(home: Home) -> None:
    home.serve()
    home.run("workspace", "add", "edge", module(home, 'variable "region" {}\noutput "x" { value = var.region }\n'))
    home.run("provision", "run", "edge", play(home), "--wait", exit=1)
    assert home.states()["apply"] == "failed"
    assert "region" in f"{home.view().workflow.reason} {home.run('provision', 'logs').stdout}"


def test_reading_works_with_the_daemon_down(home: Home) -> None:
    home.serve()
    home.run("workspace", "add", "edge", module(home, 'output "region" { value = "eu" }\n'))
    home.run("workspace", "apply", "edge", "--wait")
    assert home.stop() == 0
    assert home.json("workspace", "list")["workspaces"][0]["workspace"]["name"] == "edge"
    assert home.json("host", "known-hosts", "list")["pins"] == []
    assert home.json("provision", "list", "--all")["workflows"][0]["workflow"]["state"] == "succeeded"
