"""ansible-playbook and terraform inside the jail, with the lists that a policy for them has to name."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exocomp.protocol.jobs import Command
from exocomp.sandbox import records
from tests.ansible_runs import new_key, sshd
from tests.attempts import until
from tests.sandbox import people
from tests.sandbox.people import ENV, Person
from tests.tofu_runs import require_engine

PLAY = """
- hosts: all
  gather_facts: true
  tasks:
    - ansible.builtin.command: id -u
    - ansible.builtin.copy:
        content: "{{ inventory_hostname }} {{ ansible_facts.distribution }}"
        dest: "{{ dest }}"
"""
MODULE = """
resource "terraform_data" "first" {
  input = "kept"
}
resource "terraform_data" "slow" {
  input = terraform_data.first.output
  provisioner "local-exec" {
    command = "%s"
  }
}
output "o" {
  value = terraform_data.slow.output
}
"""


@pytest.fixture
def me() -> Iterator[Person]:
    """ansible's environment may be reachable to whom runs the tests only."""
    with people.a_person(people.names()[0]) as person:
        yield person


@pytest.mark.skipif(os.geteuid() != 0, reason="a local sshd for logins needs root")
def test_a_play_over_a_local_connection_and_over_ssh_on_a_granted_port(me: Person) -> None:
    with me.shim() as shim:
        attempt = shim.directory
        for name in ("tmp", "c"):
            me.mkdir(attempt.name, name)
        server = me.mkdir("server")
        (server / "authorized_keys").write_text(new_key(server / "key") + "\n")
        (attempt / "passwd").write_text(f"root:x:0:0:root:{attempt}/home:/bin/sh\n")
        (attempt / "ansible.cfg").write_text("")
        (attempt / "site.yml").write_text(PLAY)
        with sshd(server) as machine:
            over_ssh = {
                "ansible_host": "127.0.0.1",
                "ansible_port": machine.port,
                "ansible_user": "root",
                "ansible_ssh_private_key_file": str(server / "key"),
                "ansible_ssh_common_args": "-F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
                "ansible_remote_tmp": str(server / "remote"),
                "dest": str(server / "out"),
            }
            local = {"ansible_connection": "local", "dest": str(attempt / "home" / "out")}
            hosts = {"near": local, "far": over_ssh}
            (attempt / "inventory.json").write_text(json.dumps({"all": {"hosts": hosts}}))
            venv = sysconfig.get_path("data")
            base = me.jail(attempt / "home")
            own = [str(attempt / name) for name in ("site.yml", "ansible.cfg", "inventory.json")]
            argv = (f"{venv}/bin/ansible-playbook", f"--inventory={own[2]}", own[0])
            shim.start(
                Command(name="play", argv=argv),
                jail=me.jail(
                    attempt / "home",
                    execute=(*base.execute, venv, sys.base_prefix),
                    read=(*base.read, *own, str(server / "key")),
                    write=tuple(str(attempt / name) for name in ("home", "tmp", "c")),
                    files=((str(attempt / "passwd"), "/etc/passwd"),),
                    connect=(machine.port,),
                ),
                cwd=str(attempt),
                env={
                    **ENV,
                    "HOME": str(attempt / "home"),
                    "TMPDIR": str(attempt / "tmp"),
                    "ANSIBLE_HOME": str(attempt / "home" / ".ansible"),
                    "ANSIBLE_CONFIG": own[1],
                    "ANSIBLE_SSH_CONTROL_PATH_DIR": str(attempt / "c"),
                    "ANSIBLE_PYTHON_INTERPRETER": os.path.realpath("/usr/bin/python3"),
                },
            )
            assert shim.end().code == 0, shim.log.decode()
        assert (attempt / "home" / "out").read_text().startswith("near ")
        assert (server / "out").read_text().startswith("far ")


@pytest.fixture(params=people.names())
def someone(request: pytest.FixtureRequest) -> Iterator[Person]:
    require_engine()
    with people.a_person(request.param) as person:
        yield person


def engine() -> str:
    found = shutil.which("tofu") or shutil.which("terraform")
    assert found is not None
    return os.path.realpath(found)


def start_tofu(person: Person, shim: Any, provisioner: str, *commands: tuple[str, ...], **more: Any) -> Path:
    work = person.mkdir(shim.directory.name, "work")
    person.mkdir(shim.directory.name, "tmp")
    person.write(work / "main.tf", MODULE % provisioner)
    base = person.jail(work)
    writes = tuple(str(shim.directory / name) for name in ("home", "work", "tmp"))
    shim.start(
        *(Command(name=words[0], argv=(engine(), *words)) for words in commands),
        jail=person.jail(work, write=writes, read=(*base.read, "/proc"), execute=(*base.execute, engine())),
        cwd=str(work),
        env={
            **ENV,
            "HOME": str(shim.directory / "home"),
            "TMPDIR": str(shim.directory / "tmp"),
            "CHECKPOINT_DISABLE": "1",
            "TF_IN_AUTOMATION": "1",
        },
        **more,
    )
    return work


INIT = ("init", "-no-color", "-input=false")
APPLY = ("apply", "-no-color", "-input=false", "-auto-approve")


def test_an_apply_with_a_local_exec(someone: Person) -> None:
    with someone.shim() as shim:
        work = start_tofu(someone, shim, "echo ran > proof", INIT, APPLY)
        assert shim.end().code == 0, shim.log.decode()
        assert (work / "proof").read_text() == "ran\n"
        assert '"value": "kept"' in (work / "terraform.tfstate").read_text()


def test_a_cancel_in_the_middle_of_an_apply_saves_the_state(someone: Person) -> None:
    with someone.shim() as shim:
        work = start_tofu(someone, shim, "echo > up; sleep 60", INIT, APPLY, grace_s=30)
        until(lambda: (work / "up").exists())
        assert shim.process is not None
        shim.process.terminate()
        ended = shim.end()
        assert (ended.command, ended.cancelled) == ("apply", True)
        assert ended.code == 1, shim.log.decode()
        assert b"Interrupt received" in (shim.directory / records.LOG).read_bytes()
        saved = json.loads((work / "terraform.tfstate").read_text())
        assert {r["name"] for r in saved["resources"]} >= {"first"}
        assert not (work / ".terraform.tfstate.lock.info").exists()
