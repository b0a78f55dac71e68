"""Servers of the field that are not, not yet, or not quite SSH: what the wait and the scan make of them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator

import asyncssh
import pytest
import trio
from fake_ssh import FakeServers, fake_servers

from exocomp.actors.knock import knock
from exocomp.ssh import keyscan
from exocomp.ssh.judgement import Standing, judge
from exocomp.ssh.keyscan import ScanResult, Target, scan_many

BLACK_HOLE_S = 0.4


@pytest.fixture(scope="module")
def servers() -> Iterator[FakeServers]:
    with fake_servers() as running:
        yield running


@pytest.fixture
def scan(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ScanResult]:
    monkeypatch.setattr(keyscan, "CONNECTION_S", BLACK_HOLE_S * 4)
    monkeypatch.setattr(keyscan, "PAUSES_S", (0.0, 0.01, 0.02))

    def one(port: int, deadline_s: float = 10.0) -> ScanResult:
        target = Target("127.0.0.1", port)
        return scan_many([target], deadline_s=deadline_s)[target]

    return one


# case id → how the server behaves, and the words of knock and scan for it
NOT_SSH = {
    "ssh-01-closed-after-accept": (lambda s: s.says(b""), "closed the connection without a banner"),
    "ssh-02-maxstartups": (lambda s: s.says(b"Exceeded MaxStartups\r\n"), 'after "Exceeded MaxStartups"'),
    "ssh-03-silent": (lambda s: s.says(b"", then_waits=True), "no SSH banner within"),
    "ssh-05-dribble": (lambda s: s.dribbles(b"SSH-2.0-slow\r\n", 0.15), "no SSH banner within"),
    "ssh-14-source-penalties": (
        lambda s: s.says(b"Not allowed at this time\r\n"),
        'after "Not allowed at this time"',
    ),
    "http": (lambda s: s.says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), 'not SSH: "HTTP/1.1 400 Bad Request"'),
    "ssh-1": (lambda s: s.says(b"SSH-1.5-old\r\n", then_waits=True), 'not SSH: "SSH-1.5-old"'),
    "binary": (lambda s: s.says(b"\x15\x03\x01\x00\x02\x02\x46", then_waits=True), "not SSH"),
    "endless lines": (lambda s: s.says(b"welcome\r\n" * 3000, then_waits=True), 'not SSH: "welcome"'),
    "endless line": (lambda s: s.says(b"w" * 50_000, then_waits=True), "not SSH"),
}


@pytest.mark.parametrize("case", NOT_SSH)
async def test_a_knock_at_what_is_not_ssh_says_what_was_seen(case: str, servers: FakeServers) -> None:
    serve, words = NOT_SSH[case]
    heard = await knock("127.0.0.1", serve(servers), BLACK_HOLE_S)
    assert not heard.banner
    assert heard.open
    assert words in heard.silence


@pytest.mark.parametrize("case", NOT_SSH)
def test_a_scan_of_what_is_not_ssh_gives_no_key_and_the_reason(
    case: str, servers: FakeServers, scan: Callable[..., ScanResult]
) -> None:
    serve, words = NOT_SSH[case]
    result = scan(serve(servers), deadline_s=2.0)
    assert result.keys == frozenset()
    assert words in result.error


async def test_a_closed_port_is_refused_and_not_open() -> None:
    heard = await knock("127.0.0.1", 1, BLACK_HOLE_S)
    assert (heard.silence, heard.open) == ("connection refused", False)


async def test_a_name_that_does_not_resolve_is_said_so() -> None:
    heard = await knock("nosuch.invalid", 22, 5.0)
    assert (heard.silence, heard.open) == ("name does not resolve", False)


def test_a_scan_of_a_closed_port_or_an_unknown_name_says_so(scan: Callable[..., ScanResult]) -> None:
    assert scan(1).error == "connection refused"
    target = Target("nosuch.invalid", 22)
    assert scan_many([target])[target].error == "name does not resolve"


async def test_ssh_06_lines_before_the_banner_are_tolerated(
    servers: FakeServers, scan: Callable[..., ScanResult]
) -> None:
    port = servers.relays(servers.sshd(), first=b"welcome to the relay\r\nplease wait\r\n")
    assert (await knock("127.0.0.1", port, 5.0)).banner.startswith("SSH-2.0-")
    result = await trio.to_thread.run_sync(scan, port)
    assert result.keys == servers.public()


def test_ssh_07_a_flaky_server_is_asked_again_until_every_type_came(
    servers: FakeServers, scan: Callable[..., ScanResult]
) -> None:
    result = scan(servers.relays(servers.sshd(), drops=lambda number: number % 2 == 0))
    assert result.keys == servers.public()
    assert result.unscanned == ()


def test_types_that_never_come_are_told_apart_from_types_that_are_not_offered(
    servers: FakeServers, scan: Callable[..., ScanResult]
) -> None:
    result = scan(servers.relays(servers.sshd("ssh-ed25519", "ssh-rsa"), drops=lambda number: number > 1))
    assert result.keys == servers.public("ssh-ed25519")
    assert result.unscanned == ("ssh-rsa",)
    assert result.error == ""


def test_the_deadline_keeps_the_keys_that_came(
    servers: FakeServers, scan: Callable[..., ScanResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyscan, "PAUSES_S", (0.0, 3600.0))
    port = servers.relays(servers.sshd("ssh-ed25519", "ssh-rsa"), drops=lambda number: number > 1)
    result = scan(port, deadline_s=1.0)
    assert (result.keys, result.unscanned) == (servers.public("ssh-ed25519"), ("ssh-rsa",))


def test_ssh_09_a_server_with_rsa_only_is_scanned_in_one_connection(
    servers: FakeServers, scan: Callable[..., ScanResult]
) -> None:
    port = servers.relays(servers.sshd("ssh-rsa"))
    result = scan(port)
    assert result.keys == servers.public("ssh-rsa")
    assert servers.connections[port] == 1


def test_a_scan_makes_one_connection_for_each_type_offered(
    servers: FakeServers, scan: Callable[..., ScanResult]
) -> None:
    port = servers.relays(servers.sshd())
    assert scan(port).keys == servers.public()
    assert servers.connections[port] == 3


def test_a_key_that_the_host_did_not_sign_with_is_never_taken(
    servers: FakeServers, scan: Callable[..., ScanResult]
) -> None:
    def blob(key) -> bytes:
        return base64.b64decode(key.export_public_key("openssh").split()[1])

    true = blob(servers.keys["ssh-ed25519"])
    for false in (blob(asyncssh.generate_private_key("ssh-ed25519")), b"\xff" * len(true), true[:-32] + b"\0" * 32):
        port = servers.relays(
            servers.sshd("ssh-ed25519"), forge=lambda chunk, false=false: chunk.replace(true, false)
        )
        result = scan(port)
        assert result.keys == frozenset()
        assert result.unscanned == ("ssh-ed25519",)
        assert "key exchange failed" in result.error


def test_ssh_12_order_does_not_matter(servers: FakeServers, scan: Callable[..., ScanResult]) -> None:
    port = servers.sshd()
    first, second = scan(port), scan(port)
    assert judge(first.keys, frozenset(sorted(second.keys, reverse=True))).standing is Standing.KNOWN


def test_many_hosts_are_scanned_each_on_its_own(servers: FakeServers, scan: Callable[..., ScanResult]) -> None:
    good, bad = Target("127.0.0.1", servers.sshd("ssh-ed25519")), Target("127.0.0.1", 1)
    results = scan_many([good, bad, good], limit=1)
    assert list(results) == [good, bad]
    assert results[good].keys == servers.public("ssh-ed25519")
    assert results[bad].error == "connection refused"
