"""Sealed blobs: AES-256-GCM, each under a subkey of its own and bound to the row that it is of.

A blob is version (1 byte), id of the master key (8), nonce (12), ciphertext with tag. The subkey comes from the
master key by HKDF-SHA256 (RFC 5869) with the row's name; the row's name and the key's id are authenticated with it,
so that a blob that was moved to another row, changed by a bit, or sealed with another key does not open.
"""

from __future__ import annotations

import os

from exocomp.errors import ExocompError

KEY_BYTES = 32
_VERSION = b"\x01"
_ID_BYTES = 8
_NONCE_BYTES = 12
_HEAD = len(_VERSION) + _ID_BYTES


class Seal:
    """One master key of 32 bytes; `id` names it and gives nothing of it away."""

    def __init__(self, master: bytes) -> None:
        if len(master) != KEY_BYTES:
            raise ValueError(f"a master key has {KEY_BYTES} bytes")
        self._master = master
        self._id = _derived(master, b"exocomp key id")[:_ID_BYTES]

    @property
    def id(self) -> str:
        return self._id.hex()

    def seal(self, row: str, plain: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + self._id + nonce + AESGCM(self._subkey(row)).encrypt(nonce, plain, self._bound_to(row))

    def unseal(self, row: str, sealed: bytes) -> bytes:
        """Raises ExocompError for anything but what this key sealed as this row."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        version, key, rest = sealed[: len(_VERSION)], sealed[len(_VERSION) : _HEAD], sealed[_HEAD:]
        if version == _VERSION and key != self._id and len(rest) > _NONCE_BYTES:
            raise ExocompError(
                f"{row} was sealed with master key {key.hex()}, and this one is {self.id}",
                hint="put the master key back that belongs to this data dir",
            )
        try:
            if version != _VERSION:
                raise InvalidTag
            nonce, text = rest[:_NONCE_BYTES], rest[_NONCE_BYTES:]
            return AESGCM(self._subkey(row)).decrypt(nonce, text, self._bound_to(row))
        except (InvalidTag, ValueError):
            raise ExocompError(
                f"{row} is not what was sealed there: it was changed or moved", hint="restore it from a backup"
            ) from None

    def _subkey(self, row: str) -> bytes:
        return _derived(self._master, b"exocomp row " + row.encode())

    def _bound_to(self, row: str) -> bytes:
        return _VERSION + self._id + row.encode()


def _derived(master: bytes, purpose: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose).derive(master)
