"""The other sides of the agent's talk: hosts that sign sessions, and the requests of clients, true and false."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from exocomp.ssh.agent_session import AgentSession, Credential
from exocomp.ssh.agent_wire import ed25519, string

SESSION = bytes(range(32))
KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
BLOB = ed25519(KEY.public_key().public_bytes_raw())
SECOND_KEY = Ed25519PrivateKey.from_private_bytes(b"n" * 32)
SECOND = ed25519(SECOND_KEY.public_key().public_bytes_raw())
HASHES = {"rsa-sha2-256": hashes.SHA256(), "rsa-sha2-512": hashes.SHA512(), "ssh-rsa": hashes.SHA1()}
CURVES = {"nistp256": (ec.SECP256R1(), hashes.SHA256()), "nistp384": (ec.SECP384R1(), hashes.SHA384())}
CURVES["nistp521"] = (ec.SECP521R1(), hashes.SHA512())


class HostKey:
    """A host's key: its blob, and what it signs as `algorithm`."""

    def __init__(self, key: Any, algorithm: str) -> None:
        self.algorithm = algorithm
        self._key = key
        line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        self.blob = base64.b64decode(line.split()[1])

    def sign(self, session: bytes) -> bytes:
        return string(self.algorithm.encode()) + string(self._raw(session))

    def _raw(self, session: bytes) -> bytes:
        if self.algorithm in HASHES:
            return bytes(self._key.sign(session, padding.PKCS1v15(), HASHES[self.algorithm]))
        if (curve := self.algorithm.removeprefix("ecdsa-sha2-")) in CURVES:
            pair = utils.decode_dss_signature(self._key.sign(session, ec.ECDSA(CURVES[curve][1])))
            return b"".join(string(mpint(number)) for number in pair)
        return bytes(self._key.sign(session))


def host(algorithm: str = "ssh-ed25519") -> HostKey:
    if algorithm in HASHES:
        return HostKey(rsa.generate_private_key(65537, 2048), algorithm)
    if (curve := algorithm.removeprefix("ecdsa-sha2-")) in CURVES:
        return HostKey(ec.generate_private_key(CURVES[curve][0]), algorithm)
    return HostKey(Ed25519PrivateKey.generate(), algorithm)


def mpint(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big")


def bind(
    key: HostKey,
    session: bytes = SESSION,
    *,
    signature: bytes | None = None,
    forwarding: int = 0,
    blob: bytes | None = None,
    extension: bytes = b"session-bind@openssh.com",
) -> bytes:
    signed = key.sign(session) if signature is None else signature
    parts = (string(extension), string(blob or key.blob), string(session), string(signed), bytes([forwarding]))
    return b"\x1b" + b"".join(parts)


def login(
    session: bytes = SESSION,
    *,
    user: bytes = b"root",
    kind: int = 50,
    service: bytes = b"ssh-connection",
    method: bytes = b"publickey",
    signing: int = 1,
    algorithm: bytes = b"ssh-ed25519",
    key: bytes = BLOB,
    host_key: bytes | None = None,
    more: bytes = b"",
) -> bytes:
    head = string(session) + bytes([kind]) + string(user) + string(service)
    method = b"publickey-hostbound-v00@openssh.com" if host_key is not None else method
    tail = string(method) + bytes([signing]) + string(algorithm) + string(key)
    return head + tail + (b"" if host_key is None else string(host_key)) + more


def sign(signed: bytes, *, key: bytes = BLOB, flags: int = 0, more: bytes = b"") -> bytes:
    return b"\x0d" + string(key) + string(signed) + flags.to_bytes(4, "big") + more


class Peer:
    """A session of the agent and what it told; `say` returns the reply's type."""

    def __init__(self, *keys: HostKey, users: set[bytes] | None = None) -> None:
        self.told: list[str] = []
        self.signed: list[bytes] = []
        pins = {key.blob: f"web{number}" for number, key in enumerate(keys, 1)}
        self.session = AgentSession(
            Credential({BLOB: self._sign, SECOND: SECOND_KEY.sign}, b"fleet", pins, users), self.told.append
        )

    def _sign(self, text: bytes) -> bytes:
        self.signed.append(text)
        return KEY.sign(text)

    def say(self, message: bytes) -> int:
        return self.session.answer(message)[0]


def connected(path: str) -> tuple[socket.socket, Callable[[bytes], bytes]]:
    """A connection to an agent's socket, and a function that sends one message and returns the whole reply."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        raise

    def exchange(message: bytes) -> bytes:
        sock.sendall(string(message))
        return received(sock)

    return sock, exchange


def received(sock: socket.socket) -> bytes:
    head = sock.recv(4, socket.MSG_WAITALL)
    return sock.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL) if len(head) == 4 else b""
