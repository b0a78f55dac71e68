"""Names, keys, known_hosts text and the judgement, without a network."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from exocomp.model import Host, Pin, Trust
from exocomp.ssh import known_hosts
from exocomp.ssh.judgement import Standing, judge
from exocomp.ssh.keys import HostKey, fingerprint, host_key, read_key
from exocomp.ssh.names import pin_name, spellings


def public(private) -> HostKey:
    line = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    found = read_key(line.decode())
    assert found is not None
    return found


def fresh() -> HostKey:
    return public(ed25519.Ed25519PrivateKey.generate())


ED, OTHER = fresh(), fresh()
RSA = public(rsa.generate_private_key(65537, 2048))
P256, P384, P521 = (public(ec.generate_private_key(curve())) for curve in (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1))


def pin(name: str, key: HostKey) -> Pin:
    return Pin(
        name=name,
        key_type=key.key_type,
        key=key.key,
        trust=Trust.TOFU,
        pinned_at=0.0,
        fingerprint=fingerprint(key.key),
    )


@pytest.mark.parametrize(
    ("address", "port", "name"),
    [
        ("192.0.2.7", 22, "192.0.2.7"),
        ("192.0.2.7", 2222, "[192.0.2.7]:2222"),
        ("WEB1.Example.test", 22, "web1.example.test"),
        ("2001:DB8:0:0:0:0:0:10", 22, "2001:db8::10"),
        ("2001:db8::10", 2222, "[2001:db8::10]:2222"),
        ("[2001:db8::10]", 22, "2001:db8::10"),
        ("::ffff:c000:207", 22, "::ffff:192.0.2.7"),
        ("fe80:0::1%eth0", 22, "fe80::1%eth0"),
    ],
)
def test_a_pin_has_the_name_that_ssh_looks_up(address: str, port: int, name: str) -> None:
    assert pin_name(address, port) == name


def test_spellings_are_the_canonical_name_and_the_one_as_given() -> None:
    assert spellings("2001:DB8:0::10", 2222) == ("[2001:db8::10]:2222", "[2001:db8:0::10]:2222")
    assert spellings("192.0.2.7", 22) == ("192.0.2.7",)


@pytest.mark.parametrize("key", [ED, RSA, P256, P384, P521])
def test_a_key_that_lost_or_gained_a_byte_or_has_another_type_is_none(key: HostKey) -> None:
    blob = base64.b64decode(key.key)
    assert host_key(*key) == key
    for size in range(len(blob)):
        assert host_key(key.key_type, base64.b64encode(blob[:size]).decode()) is None
    assert host_key(key.key_type, base64.b64encode(blob + b"\0").decode()) is None
    assert host_key(key.key_type, key.key.rstrip("=") + "*") is None
    assert all(host_key(other.key_type, key.key) is None for other in (ED, RSA, P256, P384, P521) if other != key)


def test_a_declared_line_may_have_a_comment_or_a_host_name() -> None:
    assert read_key(f"{ED.key_type} {ED.key}") == ED
    assert read_key(f"{ED.key_type} {ED.key} root@web1 and more") == ED
    assert read_key(f"web1 {ED.key_type} {ED.key}") == ED
    assert read_key("") is read_key("ssh-ed25519") is read_key(f"ssh-dss {ED.key}") is None


def test_a_rendered_file_is_read_back_under_every_spelling() -> None:
    host = Host(name="web1", address="2001:DB8:0::10", port=2222)
    name = pin_name(host.address, host.port)
    text = known_hosts.render({name: [pin(name, ED), pin(name, RSA)]}, [host])
    assert known_hosts.recorded(text, "2001:db8::10", 2222) == {ED, RSA}
    assert text.startswith("[2001:db8::10]:2222,[2001:db8:0::10]:2222 ssh-ed25519 ")
    assert known_hosts.recorded(text, "2001:db8::10", 22) == set()


def test_hashed_names_are_salted_and_found() -> None:
    pins = [pin("[192.0.2.7]:2222", ED), pin("192.0.2.8", RSA)]
    text = known_hosts.render_hashed(pins)
    assert "192.0.2" not in text
    assert text != known_hosts.render_hashed(pins)
    assert known_hosts.recorded(text, "192.0.2.7", 2222) == {ED}
    assert known_hosts.recorded(text, "192.0.2.7", 22) == set()
    assert known_hosts.recorded(text, "192.0.2.8", 22) == {RSA}


def test_a_comment_can_not_smuggle_a_line_in() -> None:
    line, other = " ".join(ED), " ".join(OTHER)
    text = f"192.0.2.7 {line} a\u2028192.0.2.8 {other}\x0b192.0.2.9 {other}"
    assert [entry.names for entry in known_hosts.parse(text)] == [("192.0.2.7",)]


def test_malformed_hashes_and_patterns_pin_nothing() -> None:
    for name in ("|1|", "|1|x|y", "|1|AAAA", "|2|AAAA|AAAA", "*", "web?", "web1,!web2", "@revoked web1", "#web1"):
        assert known_hosts.recorded(f"{name} {ED.key_type} {ED.key}", "web1", 22) == set()


# recorded, offered, declared → standing, pinned, trust
VERDICTS = [
    (set(), {ED, RSA}, None, Standing.NEW, {ED, RSA}, Trust.TOFU),
    (set(), {ED, RSA}, {ED}, Standing.NEW, {ED}, Trust.VERIFIED),
    (set(), {ED}, {OTHER}, Standing.CHANGED, set(), None),
    (set(), {ED}, {ED, RSA}, Standing.CHANGED, set(), None),
    ({ED}, {ED}, None, Standing.KNOWN, set(), None),
    ({ED}, {OTHER}, None, Standing.CHANGED, set(), None),
    ({ED, RSA}, {OTHER, RSA}, None, Standing.CHANGED, set(), None),
    ({RSA}, {ED}, None, Standing.CHANGED, set(), None),
    ({RSA}, {ED, RSA}, None, Standing.PARTIAL, set(), None),
    ({RSA}, {ED, RSA}, {ED}, Standing.PARTIAL, {ED}, Trust.VERIFIED),
    ({ED, RSA}, {RSA}, None, Standing.KNOWN, set(), None),
    ({ED}, {OTHER}, {OTHER}, Standing.CHANGED, set(), None),
    ({RSA}, {ED}, {ED}, Standing.CHANGED, set(), None),
    ({ED, OTHER}, {ED}, None, Standing.CHANGED, set(), None),
    ({ED}, set(), None, Standing.UNPROVEN, set(), None),
    (set(), set(), None, Standing.UNPROVEN, set(), None),
]


@pytest.mark.parametrize(("on_record", "offered", "declared", "standing", "pins", "trust"), VERDICTS)
def test_trust_on_first_use_is_one_way(on_record, offered, declared, standing, pins, trust) -> None:
    judgement = judge(on_record, offered, declared)
    assert (judgement.standing, judgement.pins) == (standing, pins)
    assert trust is None or judgement.trust is trust
    assert judgement.fine is (standing in (Standing.NEW, Standing.KNOWN, Standing.PARTIAL))


def test_a_changed_key_is_named_with_both_fingerprints() -> None:
    reason = judge({ED}, {OTHER, RSA}).reason
    assert fingerprint(ED.key) in reason
    assert fingerprint(OTHER.key) in reason


def test_a_failed_scan_of_the_deciding_type_is_not_a_changed_key() -> None:
    assert judge({RSA}, {ED}, None, ["ssh-rsa"]).standing is Standing.UNPROVEN
    assert judge(set(), {ED}, {RSA}, ["ssh-rsa"]).standing is Standing.UNPROVEN
    assert judge({ED}, {OTHER}, None, ["ssh-rsa"]).standing is Standing.CHANGED
