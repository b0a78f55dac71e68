"""Against the real tools: sshd's keys are scanned as ssh-keygen prints them, and ssh trusts what we write."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from exocomp.actors.knock import knock
from exocomp.model import Host, Pin, Trust
from exocomp.ssh.keys import HostKey, fingerprint, read_key
from exocomp.ssh.keyscan import ScanResult, Target, scan_many
from exocomp.ssh.known_hosts import render, render_hashed
from exocomp.ssh.names import pin_name

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
TYPES = {"ed25519": (), "rsa": ("-b", "2048"), "ecdsa": ("-b", "384")}

pytestmark = pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="no OpenSSH")


class Sshd(NamedTuple):
    port: int
    keys: dict[str, HostKey]
    fingerprints: dict[str, str]

    def pins(self, address: str, *names: str) -> list[Pin]:
        keys = [self.keys[name] for name in names or self.keys]
        return [
            Pin(
                name=pin_name(address, self.port),
                key_type=key.key_type,
                key=key.key,
                trust=Trust.TOFU,
                pinned_at=0.0,
                fingerprint=fingerprint(key.key),
            )
            for key in keys
        ]


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    folder = tmp_path_factory.mktemp("sshd")
    keys, fingerprints = {}, {}
    for name, size in TYPES.items():
        file = folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", name, *size, "-N", "", "-f", file], check=True)
        found = read_key(file.with_suffix(".pub").read_text())
        assert found is not None
        keys[name] = found
        told = subprocess.run(["ssh-keygen", "-lf", file], capture_output=True, text=True, check=True).stdout
        fingerprints[name] = told.split()[1]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    lines = [f"Port {port}", "ListenAddress 127.0.0.1", "PidFile none", "StrictModes no"]
    lines += [f"HostKey {folder / name}" for name in TYPES]
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        lines.append("ListenAddress ::1")
    config = folder / "config"
    config.write_text("\n".join(lines) + "\n")
    assert SSHD is not None
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", config], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield Sshd(port, keys, fingerprints)
    finally:
        server.terminate()
        server.wait(10)


def scan(address: str, port: int) -> ScanResult:
    target = Target(address, port)
    return scan_many([target])[target]


@pytest.mark.parametrize("address", ["a..b", "a" * 64, "a" * 9999])
def test_what_can_be_no_host_name_does_not_resolve(address: str) -> None:
    assert scan(address, 22).error == "name does not resolve"


def trusts(file: Path, address: str, port: int) -> bool:
    """ssh got past the host key: then it can only fail to log in."""
    options = {
        "UserKnownHostsFile": f'"{file}"',
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "BatchMode": "yes",
        "UpdateHostKeys": "no",
        "IdentitiesOnly": "yes",
        "IdentityFile": "/dev/null",
    }
    argv = ["ssh", "-F", "none", *[part for pair in options.items() for part in ("-o", "=".join(pair))]]
    argv += ["-p", str(port), "-l", "nobody-here", "--", address, "true"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert ("Permission denied" in ended.stderr) != ("Host key verification failed" in ended.stderr), ended.stderr
    return "Permission denied" in ended.stderr


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


ADDRESSES = ["127.0.0.1", "localhost", "LocalHost"] + (["::1", "0:0:0:0:0:0:0:1", "0:0::1"] if has_ipv6() else [])


def test_a_scan_gives_every_key_of_a_real_sshd_with_its_fingerprint(sshd: Sshd) -> None:
    for address in ADDRESSES:
        result = scan(address, sshd.port)
        assert result.keys == set(sshd.keys.values())
        assert (result.unscanned, result.error) == ((), "")
    assert {name: fingerprint(key.key) for name, key in sshd.keys.items()} == sshd.fingerprints


async def test_a_real_sshd_answers_a_knock_by_address_and_by_name(sshd: Sshd) -> None:
    for address in ADDRESSES:
        heard = await knock(address, sshd.port, 5.0)
        assert heard.banner.startswith("SSH-2.0-OpenSSH")


async def test_a_scan_runs_beside_trio(sshd: Sshd) -> None:
    result = await trio.to_thread.run_sync(scan, "127.0.0.1", sshd.port)
    assert result.keys == set(sshd.keys.values())


@pytest.mark.parametrize("address", ADDRESSES)
def test_ssh_trusts_a_rendered_file_however_the_address_is_spelled(sshd: Sshd, tmp_path: Path, address: str) -> None:
    file = tmp_path / "known hosts"
    host = Host(name="web1", address=address, port=sshd.port)
    name = pin_name(address, sshd.port)
    file.write_text(render({name: sshd.pins(address)}, [host]))
    assert trusts(file, address, sshd.port)
    stranger = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAII6RUEfjC+7EvohKeBL3Gq/JAmHP/HnqPgxY1cM+sRcI"
    file.write_text(f"{name} {stranger}\n")
    assert not trusts(file, address, sshd.port)


def test_ssh_trusts_a_host_of_which_one_type_is_pinned(sshd: Sshd, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    for only in TYPES:
        file.write_text(render({pin_name("127.0.0.1", sshd.port): sshd.pins("127.0.0.1", only)}))
        assert trusts(file, "127.0.0.1", sshd.port)


def test_ssh_and_ssh_keygen_find_hashed_names(sshd: Sshd, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    for address in ("127.0.0.1", *(["::1"] if has_ipv6() else [])):
        file.write_text(render_hashed(sshd.pins(address)))
        assert trusts(file, address, sshd.port)
        argv = ["ssh-keygen", "-F", pin_name(address, sshd.port), "-f", str(file)]
        found = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        lines = [line for line in found.splitlines() if not line.startswith("#")]
        assert {read_key(line) for line in lines} == set(sshd.keys.values())
