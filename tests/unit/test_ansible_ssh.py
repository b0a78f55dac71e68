"""Plays over a real sshd on loopback: only the pins count, and which key opens the door."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from exocomp.drivers.ansible import outcome
from exocomp.ssh.agent_wire import string
from tests.ansible_runs import Bench, Sshd, new_key, sshd
from tests.unit.agent_peer import connected, received

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
    verdict, results = bench.play(
        PING, server.inventory(), known_hosts=server.known_hosts, users=frozenset({"root", "exocomp"})
    )
    assert verdict.ok, bench.log
    assert results["a"].ok == 1
    assert f"exocomp agent: signed a login as 'root' at [127.0.0.1]:{server.port}\n" in bench.log


@pytest.mark.parametrize("kind", [("rsa", "-b", "2048"), *(("ecdsa", "-b", bits) for bits in ("256", "384", "521"))])
def test_a_pinned_host_may_have_a_key_of_any_kind(tmp_path: Path, kind: tuple[str, ...]) -> None:
    bench = Bench(tmp_path)
    with sshd(tmp_path, kind=kind) as server:
        server.authorize(new_key(bench.key))
        verdict, _ = bench.play(PING, server.inventory(), known_hosts=server.known_hosts)
        assert verdict.ok, bench.log
        verdict, _ = bench.play(PING, server.inventory(), known_hosts="", pinned=foreign_pin(tmp_path))
        assert "Host key" in verdict.reason
        assert "signed" not in bench.log


def foreign_pin(root: Path) -> str:
    """A line that pins some other host, so that the agent runs and could sign."""
    return f"elsewhere {new_key(root / 'foreign')}\n"


@pytest.mark.parametrize(
    ("pinned", "loosened"),
    [
        (False, {"ansible_ssh_common_args": LOOSE}),
        (False, {"ansible_ssh_extra_args": LOOSE, "ansible_host_key_checking": False}),
        (True, {"ansible_ssh_args": LOOSE}),
        (True, {"ansible_ssh_executable": "/usr/bin/ssh", "ansible_ssh_args": LOOSE}),
        (False, {"ansible_ssh_common_args": f"{LOOSE} -o IdentitiesOnly=no -o IdentityAgent=SSH_AUTH_SOCK -A"}),
    ],
)
def test_no_variable_lets_an_unpinned_key_through(
    bench: Bench, server: Sshd, tmp_path: Path, pinned: bool, loosened: dict[str, object]
) -> None:
    other = foreign_pin(tmp_path)
    known = other.replace("elsewhere", f"[127.0.0.1]:{server.port}") if pinned else ""
    playbook = PING.replace("- hosts", f"- vars: {{ansible_ssh_common_args: '{LOOSE}'}}\n  hosts")
    verdict, results = bench.play(playbook, server.inventory(**loosened), known_hosts=known, pinned=other)
    assert "exocomp agent: signed" not in bench.log
    assert results["a"].outcome == "unreachable"
    assert "exocomp host onboard a" in verdict.hint
    assert "--rotate" in verdict.hint
    assert ("has changed" in verdict.reason) is pinned
    assert "Accepted" not in (tmp_path / "sshd.log").read_text()


def test_a_projects_ansible_cfg_lets_no_unpinned_key_through(bench: Bench, server: Sshd) -> None:
    (bench.project / "ansible.cfg").write_text(
        f"[defaults]\nhost_key_checking = False\n[ssh_connection]\nssh_args = {LOOSE} -o ControlPath=/tmp/x-%r@%h\n"
    )
    verdict, _ = bench.play(PING, server.inventory(), pinned=foreign_pin(bench.root))
    assert "Host key" in verdict.reason
    assert "signed" not in bench.log
    verdict, _ = bench.play(PING, server.inventory(), known_hosts=server.known_hosts)
    assert verdict.ok, bench.log


def test_the_inventorys_key_the_named_one_and_the_fleets_each_open_a_host(
    bench: Bench, server: Sshd, tmp_path: Path
) -> None:
    first, second, fleet = new_key(tmp_path / "first"), new_key(tmp_path / "second"), bench.key.with_suffix(".pub")
    inventory = server.inventory(ansible_ssh_private_key_file=str(tmp_path / "first"))
    for accepted_ones in ([first, second], [second], [fleet.read_text().strip()]):
        server.authorize(*accepted_ones)
        verdict, _ = bench.play(
            PING, inventory, known_hosts=server.known_hosts, ssh_identities=(str(tmp_path / "second"),)
        )
        assert verdict.ok, bench.log
    accepted = [line for line in (tmp_path / "sshd.log").read_text().splitlines() if "Accepted publickey" in line]
    fingerprints = [line.split("SHA256:")[1].split()[0] for line in accepted]
    assert len(set(fingerprints)) == 3


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


ASIDE = """
- hosts: all
  gather_facts: false
  tasks:
    - {{ansible.builtin.command: {{argv: {argv}}}, delegate_to: localhost, vars: {{ansible_connection: local}}}}
"""
OWN_SSH = ("ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no")
OWN_SSH += ("-o", "UserKnownHostsFile=/dev/null")


@pytest.fixture
def unpinned(tmp_path: Path) -> Iterator[Sshd]:
    (tmp_path / "unpinned").mkdir()
    with sshd(tmp_path / "unpinned") as running:
        yield running


def aside(*argv: str) -> str:
    return ASIDE.format(argv=json.dumps([*OWN_SSH, *argv]))


def test_an_ssh_of_the_plays_own_gets_the_fleet_key_to_pinned_hosts_only(
    bench: Bench, server: Sshd, unpinned: Sshd
) -> None:
    unpinned.authorize(server.authorized.read_text().strip())
    inventory, known = server.inventory(), server.known_hosts
    verdict, _ = bench.play(aside("-p", str(server.port), "root@127.0.0.1", "true"), inventory, known_hosts=known)
    assert verdict.ok, bench.log
    assert "signed" in bench.log
    verdict, _ = bench.play(aside("-p", str(unpinned.port), "root@127.0.0.1", "true"), inventory, known_hosts=known)
    assert not verdict.ok
    assert "refused to bind to a host key that is not pinned" in bench.log
    assert "signed" not in bench.log
    assert "Accepted" not in (bench.root / "unpinned" / "sshd.log").read_text()


def test_a_forwarded_agent_signs_nothing_on_the_far_side(bench: Bench, server: Sshd) -> None:
    onward = f"ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -p {server.port}"
    play = aside("-A", "-p", str(server.port), "root@127.0.0.1", f"{onward} root@127.0.0.1 echo got through")
    verdict, _ = bench.play(play, server.inventory(), known_hosts=server.known_hosts)
    assert not verdict.ok
    assert "refused to be forwarded" in bench.log
    assert bench.log.count("exocomp agent: signed") == 1
    assert "got through\n" not in bench.log


def test_a_user_whom_the_inventory_does_not_name_is_told(bench: Bench, server: Sshd) -> None:
    verdict, _ = bench.play(
        PING, server.inventory(), known_hosts=server.known_hosts, users=frozenset({"ubuntu", "exocomp"})
    )
    assert "refused to log in as 'root'" in verdict.reason
    assert "ansible_user" in verdict.hint


def test_a_client_that_binds_no_session_is_told_which_openssh_does(bench: Bench, server: Sshd) -> None:
    """Clients before 8.9 send no binding; an agent between, that knows no binding, makes the same of any client."""
    job, spec = bench.order(PING, server.inventory(), known_hosts=server.known_hosts)
    assert spec.companion is not None
    between = str(bench.root / "between")
    config = bench.attempt / "ssh_config"
    config.write_text(config.read_text().replace(spec.companion.ready, between))
    with forgetful_agent(between, spec.companion.ready):
        verdict, _ = outcome.judge(job, bench.run(spec), bench.attempt)
    assert "not bound to a host" in verdict.reason
    assert "OpenSSH 8.9" in verdict.hint


@contextlib.contextmanager
def forgetful_agent(path: str, real: str) -> Iterator[None]:
    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # the test is over
                return
            with client:
                client.settimeout(30)
                relay(client)

    def relay(client: socket.socket) -> None:
        sock, exchange = connected(real)
        with sock:
            while message := received(client):
                client.sendall(string(b"\x05" if message[0] == 27 else exchange(message)))

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_no_master_of_an_earlier_attempt_is_used_again(bench: Bench, server: Sshd, tmp_path: Path) -> None:
    elsewhere = tmp_path / "masters"
    elsewhere.mkdir()
    paths = (
        {},
        {"ansible_control_path": f"{elsewhere}/%%h"},
        {"ansible_control_path_dir": str(elsewhere)},
        {"ansible_ssh_common_args": f"-o ControlMaster=auto -o ControlPersist=60 -o ControlPath={elsewhere}/m"},
    )
    for variables in paths:
        inventory = server.inventory(**variables)
        job, spec = bench.order(PING, inventory, known_hosts=server.known_hosts)
        verdict, _ = outcome.judge(job, bench.run(spec), bench.attempt)
        assert verdict.ok, bench.log
        earlier = bench.attempt
        alive = list((earlier / "c").iterdir())
        assert list(elsewhere.iterdir()) == []
        try:
            verdict, _ = bench.play(PING, inventory, pinned=foreign_pin(tmp_path))
        finally:
            bench.end_masters(earlier)
        assert "Host key" in verdict.reason, (variables, bench.log)
        assert alive or variables
        for key in ("foreign", "foreign.pub"):
            (tmp_path / key).unlink()


def test_a_play_that_names_a_masters_socket_is_refused(bench: Bench, server: Sshd) -> None:
    inventory = server.inventory(ansible_ssh_common_args="-S /tmp/master")
    verdict, _ = bench.play(PING, inventory, known_hosts=server.known_hosts)
    assert "whose host key nobody checked" in verdict.reason


def test_a_private_key_that_is_a_variable_still_opens_a_host(server: Sshd) -> None:
    with tempfile.TemporaryDirectory(prefix="x", dir="/tmp") as short:  # ansible's own agent needs room for its path
        bench = Bench(Path(short))
        new_key(bench.key)
        server.authorize(new_key(bench.root / "own"))
        (bench.project / "ansible.cfg").write_text("[connection]\nssh_agent = auto\n")
        inventory = server.inventory(ansible_ssh_private_key=(bench.root / "own").read_text())
        verdict, _ = bench.play(PING, inventory, known_hosts=server.known_hosts)
        assert verdict.ok, bench.log
