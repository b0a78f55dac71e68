"""Hosts by name: the jail of a play has no UDP, and yet its hosts' names resolve."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.lab.home import Home
from tests.lab.machines import Lab, Machine

pytestmark = pytest.mark.lab
NAME = "web1.lab.test"
MODULE = f"""
output "ansible_inventory" {{
  value = {{ all = {{ hosts = {{ web1 = {{ ansible_host = "{NAME}", ansible_user = "root" }} }} }} }}
}}
"""
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.copy: {content: "found\\n", dest: /etc/motd, mode: "0644"}
"""


@pytest.fixture
def machine(lab: Lab) -> Iterator[Machine]:
    machine = Machine(lab, "named", "10.77.253.10")
    machine.wait_until_it_answers()
    yield machine
    machine.power_cut()


def test_a_host_named_by_hostname_is_waited_for_pinned_and_configured(lab: Lab, machine: Machine, tmp_path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{machine.address} {NAME}\n")
    with_hosts = f'mount --bind {hosts} /etc/hosts && exec "$@"'
    home = Home([*lab.argv, "unshare", "--mount", "--propagation", "private", "sh", "-c", with_hosts, "sh"])
    try:
        (home.work / "m").mkdir()
        (home.work / "m" / "main.tf").write_text(MODULE)
        (home.work / "site.yml").write_text(PLAY)
        shutil.copyfile(lab.key, home.work / "key")
        (home.work / "key").chmod(0o600)
        home.serve()
        home.run("workspace", "add", "edge", str(home.work / "m"))
        words = ("provision", "run", "edge", str(home.work / "site.yml"), "--ssh-identity", str(home.work / "key"))
        home.run(*words, "--wait")
        assert machine.read("/etc/motd") == "found\n"
        pins = home.json("host", "known-hosts", "list")["pins"]
        assert {pin["name"] for pin in pins} == {NAME}
    finally:
        home.close()
