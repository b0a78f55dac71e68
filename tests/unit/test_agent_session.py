"""What the agent grants and refuses, message by message: nothing but logins to the pinned host of the connection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exocomp.ssh.agent_wire import string
from tests.unit.agent_peer import BLOB, KEY, SECOND, SECOND_KEY, SESSION, Peer, bind, host, login, sign

FAILURE, SUCCESS, LISTED, SIGNED = 5, 6, 12, 14
WEB, DB, STRANGER = host(), host(), host()
OTHER = bytes(32)


@pytest.mark.parametrize(
    "algorithm",
    [
        "ssh-ed25519",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "rsa-sha2-256",
        "rsa-sha2-512",
    ],
)
@pytest.mark.parametrize("bound_to_host", [False, True])
def test_a_login_to_a_pinned_host_is_signed(algorithm: str, bound_to_host: bool) -> None:
    key = host(algorithm)
    peer = Peer(key, users={b"root"})
    request = login(host_key=key.blob if bound_to_host else None)
    assert peer.say(bind(key)) == SUCCESS
    answer = peer.session.answer(sign(request))
    assert answer[0] == SIGNED
    KEY.public_key().verify(answer[-64:], request)
    assert answer[1:-64] == string(string(b"ssh-ed25519") + string(answer[-64:]))[:-64]
    assert peer.told == ["signed a login as 'root' at web1"]


def test_the_list_is_the_fleets_public_keys_in_order_and_needs_no_binding() -> None:
    both = b"".join(string(blob) + string(b"fleet") for blob in (BLOB, SECOND))
    assert Peer().session.answer(b"\x0b") == b"\x0c\0\0\0\x02" + both


def test_each_key_signs_its_own_logins_and_not_the_others() -> None:
    peer = Peer(WEB)
    assert peer.say(bind(WEB)) == SUCCESS
    request = login(key=SECOND)
    answer = peer.session.answer(sign(request, key=SECOND))
    assert answer[0] == SIGNED
    SECOND_KEY.public_key().verify(answer[-64:], request)
    assert peer.say(sign(request, key=BLOB)) == FAILURE


# the messages of one connection, the last of which is refused → part of what the log tells
REFUSALS: dict[str, tuple[tuple[bytes, ...], str]] = {
    "empty": ((b"",), "ends early"),
    "add": ((b"\x11" + string(b"ssh-ed25519") + string(BLOB),), "type 17"),
    "add constrained": ((b"\x19" + string(b"ssh-ed25519"),), "type 25"),
    "add smartcard": ((b"\x14" + string(b"/evil.so") + string(b""),), "type 20"),
    "remove": ((b"\x12" + string(BLOB),), "type 18"),
    "remove all": ((b"\x13",), "type 19"),
    "lock": ((b"\x16" + string(b"pw"),), "type 22"),
    "unlock": ((b"\x17" + string(b"pw"),), "type 23"),
    "ssh 1 list": ((b"\x01",), "type 1"),
    "another extension": ((b"\x1b" + string(b"query"),), "extension 'query'"),
    "list with more": ((b"\x0b\0",), "more than belongs"),
    "raw": ((bind(WEB), sign(b"raw")), "no login"),
    "signed file": ((bind(WEB), sign(b"SSHSIG" + string(b"file") + string(b""))), "no login"),
    "unbound": ((sign(login()),), "not bound to a host"),
    "unbound hostbound": ((sign(login(host_key=WEB.blob)),), "not bound to a host"),
    "another session": ((bind(WEB), sign(login(OTHER))), "another session, with web1"),
    "another host inside": ((bind(WEB), sign(login(host_key=DB.blob))), "another session, with web1"),
    "another user": ((bind(WEB), sign(login(user=b"git"))), "as 'git' at web1: the inventory declares no"),
    "user of two lines": ((bind(WEB), sign(login(user=b"a\nb\xff"))), "as 'a\\nb\\ufffd'"),
    "another key": ((bind(WEB), sign(login(key=WEB.blob), key=WEB.blob)), "not the fleet's"),
    "another key inside": ((bind(WEB), sign(login(key=WEB.blob))), "no login"),
    "flags": ((bind(WEB), sign(login(), flags=2)), "flags 0x2"),
    "sign with more": ((bind(WEB), sign(login(), more=b"\0")), "more than belongs"),
    "login with more": ((bind(WEB), sign(login(more=b"\0"))), "no login"),
    "another message": ((bind(WEB), sign(login(kind=51))), "no login"),
    "another service": ((bind(WEB), sign(login(service=b"ssh-userauth"))), "no login"),
    "another method": ((bind(WEB), sign(login(method=b"hostbased"))), "no login"),
    "plain method with a host": ((bind(WEB), sign(login(more=string(WEB.blob)))), "no login"),
    "a query, not a login": ((bind(WEB), sign(login(signing=0))), "no login"),
    "another algorithm": ((bind(WEB), sign(login(algorithm=b"rsa-sha2-256"))), "no login"),
    "bind to an unpinned host": ((bind(STRANGER),), "not pinned"),
    "bind by another's signature": ((bind(WEB, signature=STRANGER.sign(SESSION)),), "web1: its key did not sign"),
    "bind of another session": ((bind(WEB, signature=WEB.sign(OTHER)),), "did not sign"),
    "bind by a mislabelled signature": (
        (bind(WEB, signature=string(b"ssh-rsa") + WEB.sign(SESSION)[15:]),),
        "did not sign",
    ),
    "bind by a signature and more": ((bind(WEB, signature=WEB.sign(SESSION) + b"\0"),), "did not sign"),
    "bind without a signature": ((bind(WEB, signature=b""),), "did not sign"),
    "bind with more": ((bind(WEB) + b"\0",), "more than belongs"),
    "bind to forward": ((bind(WEB, forwarding=1),), "forwarded"),
    "bind to forward, oddly": ((bind(WEB, forwarding=255),), "forwarded"),
    "bind twice": ((bind(WEB), bind(WEB)), "twice"),
    "bind to a second host": ((bind(WEB), bind(DB, OTHER)), "twice"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_everything_else_is_refused_and_told_in_one_line(case: str) -> None:
    (*before, last), said = REFUSALS[case]
    peer = Peer(WEB, DB, users={b"root"})
    assert [peer.say(message) for message in before] == [SUCCESS] * len(before)
    assert peer.session.answer(last) == b"\x05"
    assert peer.signed == []
    (line,) = peer.told
    assert said in line
    assert line.startswith("refused ")
    assert line.isprintable()


@pytest.mark.parametrize(
    "spoiler",
    [bind(WEB, forwarding=1), bind(STRANGER), bind(WEB, signature=b""), bind(WEB)[:-1]],
    ids=["forwarded", "unpinned", "unsigned", "torn"],
)
@pytest.mark.parametrize("bound_first", [False, True])
def test_after_a_refused_binding_the_connection_gets_nothing(spoiler: bytes, bound_first: bool) -> None:
    peer = Peer(WEB, DB)
    if bound_first:
        assert peer.say(bind(WEB)) == SUCCESS
    for message in (spoiler, bind(WEB), sign(login()), sign(login(host_key=WEB.blob)), b"\x0b"):
        assert peer.say(message) == FAILURE
    assert peer.signed == []


def test_rsa_host_keys_sign_by_sha_2_only() -> None:
    key = host("ssh-rsa")
    peer = Peer(key)
    assert peer.say(bind(key)) == FAILURE
    assert "did not sign" in peer.told[0]


def test_no_user_is_refused_when_the_inventory_leaves_it_to_the_play() -> None:
    peer = Peer(WEB, users=None)
    assert peer.say(bind(WEB)) == SUCCESS
    assert peer.say(sign(login(user=b"whoever"))) == SIGNED


def test_refused_signatures_leave_the_connection_usable() -> None:
    peer = Peer(WEB, users={b"root"})
    assert peer.say(bind(WEB)) == SUCCESS
    assert peer.say(sign(login(user=b"git"))) == FAILURE
    assert peer.say(sign(login())) == SIGNED


LOGINS = (login(), login(host_key=WEB.blob))


@given(st.lists(st.binary(max_size=200), max_size=8), st.sampled_from([b"", b"\x0d", b"\x1b"]))
def test_random_bytes_never_get_a_signature(messages: list[bytes], kind: bytes) -> None:
    peer = Peer(WEB)
    assert peer.say(bind(WEB)) == SUCCESS
    for message in messages:
        assert peer.say(kind + message) in (FAILURE, LISTED)
    assert peer.signed == []


@given(st.data())
def test_a_login_with_one_changed_byte_is_never_signed(data: st.DataObject) -> None:
    peer = Peer(WEB, DB, users={b"root"})
    messages = [bytearray(bind(WEB)), bytearray(sign(data.draw(st.sampled_from(LOGINS))))]
    torn = data.draw(st.sampled_from(messages))
    torn[data.draw(st.integers(0, len(torn) - 1))] ^= data.draw(st.integers(1, 255))
    for message in messages:
        peer.say(bytes(message))
    assert peer.signed == []


@given(
    st.lists(
        st.sampled_from(
            [
                b"\x0b",
                bind(WEB),
                bind(DB, OTHER),
                bind(WEB, forwarding=1),
                sign(login()),
                sign(login(OTHER)),
                sign(login(host_key=WEB.blob)),
                sign(login(OTHER, host_key=DB.blob)),
            ]
        ),
        max_size=7,
    )
)
def test_whatever_the_order_a_connection_signs_for_the_host_it_was_bound_to_first(messages: list[bytes]) -> None:
    peer = Peer(WEB, DB)
    for message in messages:
        peer.say(message)
    allowed = {
        bind(WEB): LOGINS,
        bind(DB, OTHER): (login(OTHER), login(OTHER, host_key=DB.blob)),
    }.get(next((message for message in messages if message[:1] == b"\x1b"), b""), ())
    assert set(peer.signed) <= set(allowed)


def test_a_signature_under_another_algorithms_name_binds_nothing() -> None:
    for key in (host("ecdsa-sha2-nistp256"), host("rsa-sha2-256"), WEB):
        raw = key.sign(SESSION)[4 + len(key.algorithm) :]
        for name in ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "rsa-sha2-512", "x"):
            if name != key.algorithm:
                peer = Peer(key)
                assert peer.say(bind(key, signature=string(name.encode()) + raw)) == FAILURE


def test_a_key_that_names_two_curves_binds_nothing() -> None:
    key = host("ecdsa-sha2-nistp256")
    signature = key.sign(SESSION)
    key.blob = key.blob.replace(string(b"nistp256"), string(b"nistp384"))
    assert Peer(key).say(bind(key, signature=signature)) == FAILURE


def test_an_rsa_signature_may_lack_its_leading_zeros() -> None:
    key = host("rsa-sha2-256")
    sessions = (number.to_bytes(32, "big") for number in range(100_000))
    session, raw = next((each, raw) for each in sessions if (raw := key.sign(each)[-256:])[0] == 0)
    short = string(b"rsa-sha2-256") + string(raw.lstrip(b"\0"))
    assert Peer(key).say(bind(key, session, signature=short)) == SUCCESS
