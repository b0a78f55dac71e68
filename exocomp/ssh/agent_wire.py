"""The ssh-agent protocol as its server reads it, and whether a host signed a session (PROTOCOL.agent, RFC 4252)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

FAILURE, SUCCESS = b"\x05", b"\x06"
LIST, LISTED = 11, b"\x0c"
SIGN, SIGNED = 13, b"\x0e"
EXTENSION = 27
BIND = b"session-bind@openssh.com"

_USERAUTH_REQUEST = 50
_PLAIN, _HOSTBOUND = b"publickey", b"publickey-hostbound-v00@openssh.com"
_SERVICE = b"ssh-connection"
_ED25519 = b"ssh-ed25519"
_CURVES = {
    b"ecdsa-sha2-nistp256": (b"nistp256", "SECP256R1", "SHA256"),
    b"ecdsa-sha2-nistp384": (b"nistp384", "SECP384R1", "SHA384"),
    b"ecdsa-sha2-nistp521": (b"nistp521", "SECP521R1", "SHA512"),
}
_RSA = {b"rsa-sha2-256": "SHA256", b"rsa-sha2-512": "SHA512"}  # RFC 8332; ssh-rsa itself is SHA-1


class Refused(Exception):
    """The request is not granted; the text says why in one line of printable ASCII."""


class Bind(NamedTuple):
    """A session-bind: the host's signature over the session's identifier, by the key that it showed."""

    host_key: bytes
    session: bytes
    signature: bytes
    forwarding: bool


class Login(NamedTuple):
    """A login that is to be signed by `key`; `host_key` is there when the method binds it."""

    key: bytes
    signed: bytes
    session: bytes
    user: bytes
    host_key: bytes | None


class Reader:
    """SSH's elementary types off the front of untrusted bytes (RFC 4251 5); raises Refused where they end early."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def _take(self, size: int) -> bytes:
        part = self._raw[self._at : self._at + size]
        if len(part) != size:
            raise Refused("a message that ends early")
        self._at += size
        return part

    def byte(self) -> int:
        return self._take(1)[0]

    def uint32(self) -> int:
        return int.from_bytes(self._take(4), "big")

    def string(self) -> bytes:
        return self._take(self.uint32())

    def integer(self) -> int:
        return int.from_bytes(self.string(), "big", signed=True)

    def end(self) -> None:
        if self._at != len(self._raw):
            raise Refused("a message with more than belongs to it")


def string(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part


def ed25519(raw: bytes) -> bytes:
    """The blob of a public key of 32 bytes, or of a signature of 64: they look alike (RFC 8709 4, 6)."""
    return string(_ED25519) + string(raw)


def read_bind(body: Reader) -> Bind:
    """The rest of a session-bind; raises Refused."""
    host_key, session, signature, forwarding = body.string(), body.string(), body.string(), body.byte()
    body.end()
    return Bind(host_key, session, signature, forwarding != 0)


def read_sign(body: Reader, keys: Collection[bytes]) -> Login:
    """The login that a sign request is for; raises Refused unless it is one by one of `keys`, and nothing else."""
    key, signed, flags = body.string(), body.string(), body.uint32()
    body.end()
    if key not in keys:
        raise Refused("a signature by a key that is not the fleet's")
    if flags:
        raise Refused(f"a signature with flags {flags:#x}")
    try:
        return _login(signed, key)
    except Refused:
        raise Refused("a signature over what is no login by the fleet key") from None


def _login(signed: bytes, key: bytes) -> Login:
    request = Reader(signed)
    session, kind, user = request.string(), request.byte(), request.string()
    service, method, signing = request.string(), request.string(), request.byte()
    algorithm, wanted = request.string(), request.string()
    host_key = request.string() if method == _HOSTBOUND else None
    request.end()
    fixed = (kind, service, signing, algorithm, wanted)
    if fixed != (_USERAUTH_REQUEST, _SERVICE, 1, _ED25519, key) or method not in (_PLAIN, _HOSTBOUND):
        raise Refused("no login")
    return Login(key, signed, session, user, host_key)


def is_signed(bind: Bind) -> bool:
    """Whether the host key signed the session's identifier; certificates and SHA-1 never count."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        _verify(bind)
    except (Refused, InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


def _verify(bind: Bind) -> None:
    key, signature = Reader(bind.host_key), Reader(bind.signature)
    kind, algorithm, blob = key.string(), signature.string(), signature.string()
    signature.end()
    if kind == algorithm == _ED25519:
        _verify_ed25519(key, blob, bind.session)
    elif kind == algorithm and kind in _CURVES:
        _verify_ecdsa(key, blob, bind.session, *_CURVES[kind])
    elif kind == b"ssh-rsa" and algorithm in _RSA:
        _verify_rsa(key, blob, bind.session, _RSA[algorithm])
    else:
        raise Refused("another algorithm")


# Each algorithm is imported where it is met: all of them would double the agent's start.


def _verify_ed25519(key: Reader, blob: bytes, session: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = Ed25519PublicKey.from_public_bytes(key.string())
    key.end()
    public.verify(blob, session)


def _verify_ecdsa(key: Reader, blob: bytes, session: bytes, curve: bytes, curve_class: str, digest: str) -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    if key.string() != curve:
        raise Refused("another curve")
    public = ec.EllipticCurvePublicKey.from_encoded_point(getattr(ec, curve_class)(), key.string())
    key.end()
    pair = Reader(blob)
    r, s = pair.integer(), pair.integer()
    pair.end()
    public.verify(utils.encode_dss_signature(r, s), session, ec.ECDSA(getattr(hashes, digest)()))


def _verify_rsa(key: Reader, blob: bytes, session: bytes, digest: str) -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    e, n = key.integer(), key.integer()
    key.end()
    public = rsa.RSAPublicNumbers(e, n).public_key()
    # Some servers drop the leading zeros of a signature, as OpenSSH allows.
    public.verify(blob.rjust(public.key_size + 7 >> 3, b"\0"), session, padding.PKCS1v15(), getattr(hashes, digest)())
