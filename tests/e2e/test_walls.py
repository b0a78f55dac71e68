"""The jail around the real tools: what a job may not reach, it does not reach, and the failure says so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.home import Home

HOST = 'output "ansible_inventory" { value = { all = { hosts = { here = { ansible_connection = "local" } } } } }\n'
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.command: {command}
"""


@pytest.fixture
def home() -> Iterator[Home]:
    home = Home()
    yield home
    home.close()


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    """A port on loopback, and who came."""
    came: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, peer = server.accept()
                except OSError:
                    return
                came.append(str(peer))
                connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1], came
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def register(home: Home, *flags: str, more: str = "") -> None:
    (home.work / "m").mkdir()
    (home.work / "m" / "main.tf").write_text(HOST + more)
    home.run("workspace", "add", "edge", str(home.work / "m"), *flags)


def play(home: Home, command: str) -> str:
    (home.work / "p").mkdir(exist_ok=True)
    (home.work / "p" / "site.yml").write_text(PLAY.format(command=command))
    return str(home.work / "p" / "site.yml")


def local_exec(command: str) -> str:
    return f'resource "terraform_data" "x" {{\n  provisioner "local-exec" {{ command = "{command}" }}\n}}\n'


def test_an_engine_reaches_a_port_only_when_its_workspace_was_granted_it(home: Home, listener) -> None:
    port, came = listener
    connect = local_exec(f"curl -sS http://127.0.0.1:{port}/ || test $? != 7")
    home.serve()
    register(home, more=connect)
    failed = home.run("workspace", "apply", "edge", "--wait", exit=1)
    assert f"may not connect to TCP port {port}" in failed.stdout
    assert f"--egress {port}" in failed.stdout
    assert came == []
    home.run("workspace", "remove", "edge", "--yes", "--force")
    home.run("workspace", "add", "edge", str(home.work / "m"), "--egress", str(port))
    home.run("workspace", "apply", "edge", "--wait")
    assert len(came) == 1


def test_a_play_reaches_a_port_only_when_the_run_was_granted_it(home: Home, listener) -> None:
    port, came = listener
    home.serve()
    register(home)
    words = ("provision", "run", "edge", play(home, f"bash -c 'echo >/dev/tcp/127.0.0.1/{port}'"), "--wait")
    home.run(*words, exit=1)
    assert came == []
    home.run(*words, "--egress", str(port))
    assert len(came) == 1


def test_a_play_sees_neither_the_ledger_nor_the_keys_nor_another_jobs_files(home: Home) -> None:
    home.serve()
    register(home)
    secret = home.work / "secret.txt"
    secret.write_text("s3cr3t")
    wanted = [
        secret,
        home.data / "exocomp.db",
        home.data / "keys",
        home.data / "workspaces",
        Path("/etc/shadow"),
        Path("/root"),
    ]
    script = "; ".join(f"! head -c 1 {path} && ! ls {path}" for path in wanted)
    home.run("provision", "run", "edge", play(home, f'bash -c "set -e; {script}"'), "--wait")


def test_a_path_outside_the_module_is_named_in_the_failure(home: Home) -> None:
    home.serve()
    (home.work / "cloud.json").write_text("{}")
    register(home, more=local_exec(f"cat {home.work}/cloud.json"))
    failed = home.run("workspace", "apply", "edge", "--wait", exit=1)
    assert f"can't see {home.work}/cloud.json" in failed.stdout


def test_the_tier_is_recorded_on_every_attempt_and_shown(home: Home) -> None:
    home.serve()
    register(home)
    home.run("provision", "run", "edge", play(home, "/bin/true"), "--wait")
    assert "sandbox enforcing" in home.run("provision", "status").stdout
    tiers = {each["step"]["name"]: each.get("tier") for each in home.json("provision", "status")["steps"]}
    assert (tiers["apply"], tiers["wait"], tiers["configure"]) == ("enforcing", None, "enforcing")
    (attempt,) = home.json("job", "show", "latest")["attempts"]
    assert attempt["tier"] == "enforcing"
    assert len(attempt["source"]) == 64


def test_off_is_an_operators_word_and_is_shown(home: Home, listener, monkeypatch: pytest.MonkeyPatch) -> None:
    port, came = listener
    env = home.env
    monkeypatch.setattr(home, "env", lambda **more: env(EXOCOMP_SANDBOX="off", **more))
    home.serve()
    register(home)
    home.run("provision", "run", "edge", play(home, f"bash -c 'echo >/dev/tcp/127.0.0.1/{port}'"), "--wait")
    assert len(came) == 1
    assert "sandbox off" in home.run("provision", "status").stdout
