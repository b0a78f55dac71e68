"""The agent's process: its socket, its secrecy, and that no client can hold up another."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from exocomp.model import Host, Pin, Trust
from exocomp.protocol.jobs import Companion
from exocomp.secrets.sealing import Seal
from exocomp.ssh import agent
from exocomp.ssh.agent_wire import string
from exocomp.ssh.companion import companion, users_of
from exocomp.ssh.fleet_key import FleetKeys
from tests.ansible_runs import beside
from tests.attempts import ENV, open_shim, sh, until
from tests.unit.agent_peer import SESSION, HostKey, bind, connected, host, login, received, sign

LIST = b"\x0b"


@pytest.fixture(scope="module")
def web() -> HostKey:
    return host()


@pytest.fixture
def order(tmp_path: Path, web: HostKey) -> Companion:
    return ordered(tmp_path, web)


def ordered(tmp_path: Path, *keys: HostKey) -> Companion:
    pins = {
        f"web{number}": (
            Pin(
                name=f"web{number}",
                key_type="",
                key=base64.b64encode(key.blob).decode(),
                trust=Trust.TOFU,
                pinned_at=0.0,
                fingerprint="",
            ),
        )
        for number, key in enumerate(keys, 1)
    }
    return companion((FleetKeys(tmp_path / "keys", Seal(bytes(32))).current(),), tmp_path, pins, frozenset({"root"}))


@pytest.fixture
def path(tmp_path: Path, order: Companion) -> Iterator[str]:
    with beside(order, tmp_path):
        yield order.ready


def blob_of(tmp_path: Path) -> bytes:
    return base64.b64decode(FleetKeys(tmp_path / "keys", Seal(bytes(32))).current().public_line.split()[1])


def test_a_login_goes_through_and_the_log_tells_it(tmp_path: Path, path: str, web: HostKey) -> None:
    sock, exchange = connected(path)
    key = blob_of(tmp_path)
    with sock:
        assert exchange(LIST) == b"\x0c\0\0\0\x01" + string(key) + string(b"exocomp-fleet")
        assert exchange(bind(web)) == b"\x06"
        assert exchange(sign(login(key=key), key=key))[:1] == b"\x0e"
        assert exchange(b"\x13") == b"\x05"
    assert (tmp_path / "log").read_text().splitlines() == [
        "exocomp agent: signed a login as 'root' at web1",
        "exocomp agent: refused a request of type 19",
    ]


def test_a_binding_is_its_connections_alone(tmp_path: Path, path: str, web: HostKey) -> None:
    key = blob_of(tmp_path)
    (first, one), (second, two) = connected(path), connected(path)
    with first, second:
        assert one(bind(web)) == b"\x06"
        assert two(sign(login(key=key), key=key)) == b"\x05"
        assert two(bind(web, forwarding=1)) == b"\x05"
        assert one(sign(login(key=key), key=key))[:1] == b"\x0e"


def test_the_socket_is_private(path: str) -> None:
    assert os.stat(path).st_mode & 0o7777 == 0o600
    assert not os.path.exists(f"{path}.new")


def test_messages_may_come_in_crumbs_or_all_at_once(path: str) -> None:
    sock, exchange = connected(path)
    with sock:
        whole = exchange(LIST)
        for crumb in string(LIST):
            sock.sendall(bytes([crumb]))
        assert received(sock) == whole
        sock.sendall(string(LIST) * 50)
        assert [received(sock) for _ in range(50)] == [whole] * 50


@pytest.mark.parametrize("size", [agent.MOST_BYTES + 1, 2**32 - 1])
def test_a_message_that_is_too_long_ends_the_connection(path: str, tmp_path: Path, size: int) -> None:
    sock, _ = connected(path)
    with sock:
        sock.sendall(size.to_bytes(4, "big"))
        assert sock.recv(1) == b""
    assert f"refused a message of {size} bytes" in (tmp_path / "log").read_text()


def test_the_longest_message_is_answered(path: str) -> None:
    sock, exchange = connected(path)
    with sock:
        assert exchange(LIST + bytes(agent.MOST_BYTES - 1)) == b"\x05"


def test_stuck_clients_block_nobody(path: str) -> None:
    silent, _ = connected(path)
    torn, _ = connected(path)
    torn.sendall(b"\0\0\0\x09\x0b")
    greedy, _ = connected(path)
    greedy.setblocking(False)
    while select.select([], [greedy], [], 0.2)[1]:
        greedy.send(string(LIST) * 1000)
    gone, _ = connected(path)
    gone.sendall(string(LIST) * 1000)
    gone.close()
    sock, exchange = connected(path)
    with silent, torn, greedy, sock:
        assert exchange(LIST)[:1] == b"\x0c"


def test_connections_are_bounded_and_places_are_given_again(path: str, tmp_path: Path) -> None:
    talks = [connected(path) for _ in range(agent.MOST_CLIENTS)]
    assert talks[-1][1](LIST)[:1] == b"\x0c"
    with connected(path)[0] as one_more:
        assert one_more.recv(1) == b""
    for sock, _ in talks:
        sock.close()
    while True:
        sock, exchange = connected(path)
        with sock:
            try:
                assert exchange(LIST)[:1] == b"\x0c"
                break
            except (AssertionError, BrokenPipeError, ConnectionResetError):
                continue
    assert f"refused a connection: there are {agent.MOST_CLIENTS} already" in (tmp_path / "log").read_text()


def test_it_leaves_no_trace_of_the_key_in_proc_and_no_core(tmp_path: Path, order: Companion) -> None:
    with agent_of(order, tmp_path) as process:
        told = [Path(f"/proc/{process.pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
        descriptors = [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{process.pid}/fd")]
        assert resource.prlimit(process.pid, resource.RLIMIT_CORE) == (0, 0)
    assert not any(json.loads(order.secret)["seeds"][0].encode() in text for text in told)
    assert not any("memfd" in name for name in descriptors)


def test_a_process_of_the_same_user_cannot_open_its_memory(tmp_path: Path, order: Companion) -> None:
    powerless = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []

    def openable(pid: int) -> bool:
        probe = [*powerless, sys.executable, "-I", "-c", f"open('/proc/{pid}/mem', 'rb')"]
        done = subprocess.run(probe, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 0 or b"PermissionError" in done.stderr
        return done.returncode == 0

    with subprocess.Popen([*powerless, "sleep", "60"]) as ordinary:
        try:
            while Path(f"/proc/{ordinary.pid}/comm").read_text() != "sleep\n":
                continue
            assert openable(ordinary.pid)
        finally:
            ordinary.kill()
    with agent_of(order, tmp_path, *powerless) as process:
        assert not openable(process.pid)


@contextlib.contextmanager
def agent_of(order: Companion, attempt: Path, *prefix: str) -> Iterator[subprocess.Popen[bytes]]:
    changed = msgspec.structs.replace(order, argv=(*prefix, *order.argv))
    with beside(changed, attempt) as process:
        assert process is not None
        yield process


def test_an_agent_whose_log_is_gone_goes_on(tmp_path: Path, order: Companion, web: HostKey) -> None:
    os.mkfifo(tmp_path / "log")
    reading = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    with beside(order, tmp_path):
        os.close(reading)
        sock, exchange = connected(order.ready)
        with sock:
            assert [exchange(b"\x13"), exchange(bind(web, SESSION))] == [b"\x05", b"\x06"]


@pytest.mark.parametrize("secret", ["", "{}", '{"seeds": ["AAAA"], "comment": "", "pins": [], "users": null}'])
def test_without_a_key_there_is_no_socket(tmp_path: Path, secret: str) -> None:
    fd = os.memfd_create("secret")
    os.write(fd, secret.encode())
    argv = [sys.executable, "-I", agent.__file__, str(fd), str(tmp_path / "a")]
    done = subprocess.run(argv, pass_fds=[fd], capture_output=True, timeout=60, check=False)
    os.close(fd)
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_its_start_imports_little() -> None:
    probe = "import sys; from exocomp.ssh import agent; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-I", "-c", probe], capture_output=True, text=True, check=True).stdout
    assert not {"asyncssh", "asyncio", "msgspec", "subprocess", "dataclasses"} & set(loaded.split())


HOSTS = (Host(name="a", address="a", user="ubuntu"), Host(name="b", address="b", user="root"))


@pytest.mark.parametrize(
    ("hosts", "extra_vars", "users"),
    [
        (HOSTS, {}, {"ubuntu", "root", "exocomp"}),
        (
            HOSTS,
            {"ansible_user": "deploy", "exocomp_fleet_user": "keeper"},
            {"ubuntu", "root", "exocomp", "deploy", "keeper"},
        ),
        (HOSTS, {"ansible_user": "{{ someone }}"}, None),
        ((*HOSTS, Host(name="c", address="c")), {}, None),
        ((*HOSTS, Host(name="c", address="c", connection="local")), {}, {"ubuntu", "root", "exocomp"}),
    ],
)
def test_users_are_those_declared_or_anyone_when_a_hosts_is_left_to_the_play(
    hosts: tuple[Host, ...], extra_vars: dict[str, object], users: set[str] | None
) -> None:
    assert users_of(hosts, extra_vars) == users


def test_cloned_machines_may_show_one_key(tmp_path: Path, web: HostKey) -> None:
    told = json.loads(ordered(tmp_path, web, web).secret)
    credential = agent.read_credential(told)
    assert credential.pins == {web.blob: "web1,web2"}
    assert "seeds" not in told


def test_the_shim_keeps_it_for_the_commands_and_no_longer(tmp_path: Path, web: HostKey) -> None:
    with open_shim(tmp_path) as shim:
        order = ordered(shim.directory, web)
        env = {**ENV, "SSH_AUTH_SOCK": order.ready}
        ended = shim.run(sh("ssh-add -l"), sh("ssh-add -l; ssh-add -D"), env=env, companion=order)
        assert ended.code == 1
        assert shim.log.decode().count("exocomp-fleet (ED25519)") == 2
        assert b"exocomp agent: refused a request of type 19\n" in shim.log
        with pytest.raises(ConnectionRefusedError):
            connected(order.ready)


def test_it_dies_with_the_shim(tmp_path: Path, web: HostKey) -> None:
    with open_shim(tmp_path) as shim:
        order = ordered(shim.directory, web)
        shim.start(sh("echo began; sleep 60"), companion=order)
        until(lambda: (shim.directory / "log").exists() and b"began" in shim.log)
        sock, exchange = connected(order.ready)
        assert shim.process is not None
        with sock:
            assert exchange(LIST)[:1] == b"\x0c"
            shim.process.kill()
            assert sock.recv(1) == b""
