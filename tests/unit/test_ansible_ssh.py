"""Plays over a real sshd on loopback: only the pins count, and which key opens the door."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ansible_runs import Bench, Sshd, new_key, sshd

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sshd lets only root in here")

PING = "- hosts: all\n  gather_facts: false\n  tasks: [{ansible.builtin.ping: }]\n"
LOOSE = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o NoHostAuthenticationForLocalhost=yes"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    with sshd(tmp_path) as running:
        yield running


@pytest.fixture
def bench(tmp_path: Path, server: Sshd) -> Bench:
    bench = Bench(tmp_path)
    server.authorize(new_key(bench.key))
    return bench


def test_the_fleet_key_opens_a_pinned_host(bench: Bench, server: Sshd) -> None:
    verdict, results = bench.play(PING, server.inventory(), known_hosts=server.known_hosts)
    assert verdict.ok, bench.log
    assert results["a"].ok == 1


@pytest.mark.parametrize(
    ("pinned", "loosened"),
    [
        (False, {"ansible_ssh_common_args": LOOSE}),
        (False, {"ansible_ssh_extra_args": LOOSE, "ansible_host_key_checking": False}),
        (True, {"ansible_ssh_args": LOOSE}),
        (True, {"ansible_ssh_executable": "/usr/bin/ssh", "ansible_ssh_args": LOOSE}),
    ],
)
def test_no_variable_lets_an_unpinned_key_through(
    bench: Bench, server: Sshd, tmp_path: Path, pinned: bool, loosened: dict[str, object]
) -> None:
    known = ""
    if pinned:
        other = new_key(tmp_path / "other")
        known = f"[127.0.0.1]:{server.port} {other}\n"
    playbook = PING.replace("- hosts", f"- vars: {{ansible_ssh_common_args: '{LOOSE}'}}\n  hosts")
    verdict, results = bench.play(playbook, server.inventory(**loosened), known_hosts=known)
    assert results["a"].outcome == "unreachable"
    assert "exocomp host onboard a" in verdict.hint
    assert "--rotate" in verdict.hint
    assert ("has changed" in verdict.reason) is pinned
    assert "Accepted" not in (tmp_path / "sshd.log").read_text()


def test_a_projects_ansible_cfg_lets_no_unpinned_key_through(bench: Bench, server: Sshd) -> None:
    (bench.project / "ansible.cfg").write_text(
        f"[defaults]\nhost_key_checking = False\n[ssh_connection]\nssh_args = {LOOSE} -o ControlPath=/tmp/x-%r@%h\n"
    )
    verdict, _ = bench.play(PING, server.inventory())
    assert "Host key" in verdict.reason
    verdict, _ = bench.play(PING, server.inventory(), known_hosts=server.known_hosts)
    assert verdict.ok, bench.log


def test_the_inventorys_key_comes_first_then_the_named_one_then_the_fleets(
    bench: Bench, server: Sshd, tmp_path: Path
) -> None:
    first, second, fleet = new_key(tmp_path / "first"), new_key(tmp_path / "second"), bench.key.with_suffix(".pub")
    inventory = server.inventory(ansible_ssh_private_key_file=str(tmp_path / "first"))
    for others in ([fleet.read_text().strip(), second, first], [fleet.read_text().strip(), second]):
        server.authorize(*others)
        verdict, _ = bench.play(
            PING, inventory, known_hosts=server.known_hosts, ssh_identities=(str(tmp_path / "second"),)
        )
        assert verdict.ok, bench.log
    accepted = [line for line in (tmp_path / "sshd.log").read_text().splitlines() if "Accepted publickey" in line]
    fingerprints = [line.split("SHA256:")[1].split()[0] for line in accepted]
    assert len(set(fingerprints)) == 2


def test_a_login_without_an_accepted_key_fails_at_once_and_names_the_option(bench: Bench, server: Sshd) -> None:
    server.authorize()
    verdict, _ = bench.play(PING, server.inventory(), known_hosts=server.known_hosts)
    assert "Permission denied" in verdict.reason
    assert "--ssh-identity" in verdict.hint


def test_files_reach_a_host_through_the_pins_too(bench: Bench, server: Sshd, tmp_path: Path) -> None:
    playbook = f"""
- hosts: all
  gather_facts: false
  tasks: [{{ansible.builtin.copy: {{content: hello, dest: "{tmp_path}/copied.x (y", mode: "0600"}}}}]
"""
    verdict, _ = bench.play(playbook, server.inventory(), known_hosts=server.known_hosts)
    assert verdict.ok, bench.log
    assert (tmp_path / "copied.x (y").read_text() == "hello"
    assert "transfer mechanism failed" not in bench.log
    verdict, _ = bench.play(
        playbook.replace("copied.x (y", "again"),
        server.inventory(ansible_sftp_extra_args="-S/usr/bin/ssh", ansible_scp_extra_args="-S/usr/bin/ssh"),
        known_hosts=server.known_hosts,
    )
    assert verdict.ok, bench.log
    assert "transfer mechanism failed" in bench.log
