"""Composed inventories in the hands of the real ansible: nothing is evaluated, and ssh gets what we would dial."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exocomp.inventory import generations, loader, shape
from exocomp.model import Output


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def compose(inventory: Any) -> dict[str, Any]:
    return shape.compose({"ansible_inventory": Output(value=inventory)})


SPY = """
- hosts: all
  gather_facts: false
  tasks:
    - copy: {content: "{{ hostvars[inventory_hostname] | to_json }}", dest: "{{ playbook_dir }}/seen.json"}
      delegate_to: localhost
      vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}", ansible_connection: local}
    - ansible.builtin.debug: {msg: "{{ tag }} {{ nested }}"}
"""


def test_no_value_of_an_output_is_evaluated_in_a_play(home: Path) -> None:
    evil = "{{ lookup('pipe', 'touch " + str(home / "evaluated") + "') }}"
    variables = {
        "tag": evil,
        "nested": {"a": [1, True, None, 10**22, evil], evil: evil},
        "odd": "a<b>\u2028\x1b[31m é \t",
    }
    file, _ = generations.write(
        compose({"all": {"vars": variables, "hosts": {"a": {"ansible_connection": "local", "note": "{% raw %}"}}}}),
        home,
    )
    (home / "spy.yml").write_text(SPY)
    subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(file), str(home / "spy.yml")],
        env=loader.loader_env(home),
        check=True,
        capture_output=True,
    )
    seen = json.loads((home / "seen.json").read_text())
    assert {name: seen[name] for name in variables} == variables
    assert not (home / "evaluated").exists()


def test_ssh_gets_exactly_what_we_would_dial(home: Path) -> None:
    """The twin: ansible itself, with a program in the place of ssh that writes down its arguments."""
    spy = home / "ssh"
    spy.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {home}/argv.$$\nexit 255\n')
    spy.chmod(0o700)
    content = compose(
        {
            "all": {
                "vars": {"ansible_user": "core"},
                "hosts": {
                    "a": {"ansible_host": "192.0.2.1", "ansible_port": " 2222 "},
                    "b:2201": {"ansible_host": "2001:db8::1", "ansible_ssh_user": "root", "ansible_user": "x"},
                    "c": {"ansible_host": "bücher.example.test", "ansible_ssh_private_key_file": "/k"},
                    "d[1:2]": {"ansible_ssh_host": "192.0.2.4", "ansible_host": "192.0.2.5", "ansible_port": None},
                },
            }
        }
    )
    file, _ = generations.write(content, home)
    subprocess.run(
        [str(Path(sys.executable).with_name("ansible")), "all", "-i", str(file), "-m", "raw", "-a", "true"],
        env={**loader.loader_env(home), "ANSIBLE_SSH_EXECUTABLE": str(spy)},
        capture_output=True,
    )
    dialled = sorted(_of_argv(found.read_text().splitlines()) for found in home.glob("argv.*"))
    done = subprocess.run(loader.loader_argv(file), env=loader.loader_env(home), capture_output=True)
    ours = loader.parse_hosts(done.stdout, done.stderr, done.returncode)
    assert dialled == sorted((host.address, host.port, host.user or "") for host in ours)


def _of_argv(argv: list[str]) -> tuple[str, int, str]:
    options = dict(word.split("=", 1) for word in argv if word.startswith(("Port=", "User=")))
    return argv[-2], int(options.get("Port", "22")), options.get("User", "").strip('"')
