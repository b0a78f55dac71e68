"""known_hosts files of the field: which lines pin a host, and what they mean beside what it offers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from exocomp.ssh.judgement import Standing, judge
from exocomp.ssh.keys import HostKey, read_key
from exocomp.ssh.known_hosts import parse, recorded
from exocomp.ssh.names import pin_name

CASES = Path(__file__).parent / "known_hosts"
KEYS = Path(__file__).parent / "ssh" / "ssh-01-fake-servers"


def key(name: str) -> HostKey:
    found = read_key((KEYS / f"{name}.pub").read_text())
    assert found is not None
    return found


ED, OTHER, RSA, ECDSA = key("ed25519"), key("ed2"), key("rsa"), key("ecdsa")

# (case, address, port) → the keys that pin it
LOOKUPS = {
    ("kh-01-port-form", "198.51.100.9", 22): {OTHER},
    ("kh-01-port-form", "198.51.100.9", 2201): {ED},
    ("kh-01-port-form", "198.51.100.9", 2202): set(),
    ("kh-02-ipv6", "2001:db8::10", 22): {ED},
    ("kh-02-ipv6", "2001:DB8::10", 22): {ED},
    ("kh-02-ipv6", "2001:db8:0:0:0:0:0:10", 22): {ED},
    ("kh-02-ipv6", "2001:db8::10", 2222): {OTHER},
    ("kh-02-ipv6", "2001:db8::12", 22): set(),
    ("kh-03-hashed", "198.51.100.9", 2201): {ED},
    ("kh-03-hashed", "198.51.100.9", 22): set(),
    ("kh-03-hashed", "web1.example.test", 22): {OTHER},
    ("kh-03-hashed", "192.0.2.11", 22): {OTHER},
    ("kh-04-markers-wild", "web1.example.test", 22): set(),
    ("kh-04-markers-wild", "web1.example.test", 2222): set(),
    ("kh-04-markers-wild", "h.corp.test", 22): set(),
    ("kh-05-crlf", "192.0.2.11", 22): {ED},
    ("kh-05-crlf", "192.0.2.12", 22): {RSA},
    ("kh-07-truncated", "192.0.2.11", 22): {ED},
    ("kh-07-truncated", "192.0.2.12", 22): set(),
    ("kh-09-two-ed25519-same-host", "192.0.2.11", 22): {ED, OTHER, RSA},
    ("kh-10-uppercase", "web1.example.test", 22): {ED},
    ("kh-10-uppercase", "WEB2.EXAMPLE.TEST", 22): {RSA},
    ("kh-11-comments-tabs", "192.0.2.11", 22): {ED},
    ("kh-11-comments-tabs", "192.0.2.12", 22): set(),
    ("kh-11-comments-tabs", "192.0.2.13", 22): {RSA},
    ("kh-11-comments-tabs", "192.0.2.14", 22): {ECDSA},
    ("kh-14-stale-plus-fresh", "127.0.0.1", 4001): {OTHER, RSA, ECDSA, ED},
    ("kh-18-partial-type-set", "127.0.0.1", 4001): {RSA},
}
# Lines that ssh-keygen finds and that pin nothing all the same.
NO_PINS = {"kh-04-markers-wild", "kh-07-truncated"}


@pytest.mark.parametrize(("case", "address", "port"), LOOKUPS)
def test_the_pins_of_a_host_are_read_as_ssh_would_find_them(case: str, address: str, port: int) -> None:
    assert recorded((CASES / case / "known_hosts").read_text(), address, port) == LOOKUPS[case, address, port]


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")
@pytest.mark.parametrize(("case", "address", "port"), [look for look in LOOKUPS if look[0] not in NO_PINS])
def test_ssh_keygen_finds_the_same_lines(case: str, address: str, port: int) -> None:
    file = CASES / case / "known_hosts"
    argv = ["ssh-keygen", "-F", pin_name(address, port), "-f", str(file)]
    found = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    lines = [line for line in found.splitlines() if not line.startswith("#")]
    assert {read_key(line) for line in lines} == LOOKUPS[case, address, port]


def test_kh_05_crlf_does_not_end_up_in_a_key_or_a_name() -> None:
    entries = parse((CASES / "kh-05-crlf" / "known_hosts").read_bytes().decode())
    assert not any("\r" in part for entry in entries for part in (*entry.names, *entry.key))


# case → (address, port, what the host offers now, what that means)
JUDGED = {
    "kh-09-two-ed25519-same-host": ("192.0.2.11", 22, {ED, RSA}, Standing.CHANGED),
    "kh-14-stale-plus-fresh": ("127.0.0.1", 4001, {ED, RSA, ECDSA}, Standing.CHANGED),
    "kh-18-partial-type-set": ("127.0.0.1", 4001, {ED, RSA, ECDSA}, Standing.PARTIAL),
    "kh-10-uppercase": ("web1.example.test", 22, {OTHER}, Standing.CHANGED),
    "kh-07-truncated": ("192.0.2.12", 22, {ED}, Standing.NEW),
    "kh-04-markers-wild": ("web1.example.test", 22, {ED}, Standing.NEW),
}


@pytest.mark.parametrize("case", JUDGED)
def test_what_is_recorded_is_judged_against_what_is_offered(case: str) -> None:
    address, port, offered, standing = JUDGED[case]
    pins = recorded((CASES / case / "known_hosts").read_text(), address, port)
    assert judge(pins, offered).standing is standing
