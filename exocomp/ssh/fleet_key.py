"""The fleet key: an ed25519 key whose private half lies sealed in the data dir; while it is rotated there are two."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from exocomp import private_file
from exocomp.errors import ExocompError
from exocomp.ssh.keys import fingerprint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

COMMENT = "exocomp-fleet"
FILE = "fleet_ed25519"
NEXT = "fleet_ed25519.next"  # there only while a rotation is under way
ROW = "fleet-key"  # what both are sealed as, because the one becomes the other
_PEM = b"-----BEGIN "
_CURE = "delete it and onboard the hosts again"


class Sealer(Protocol):
    """Seals what must not lie on the disk in plaintext, each under the name of its row."""

    def seal(self, row: str, plain: bytes) -> bytes: ...

    def unseal(self, row: str, sealed: bytes) -> bytes:
        """Raises ExocompError for what was not sealed with this key as this row."""
        ...


class FleetKey:
    """`seed` is the private half, 32 bytes (RFC 8032 5.1.5); `public_line` one authorized_keys line."""

    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        public = Ed25519PrivateKey.from_private_bytes(seed).public_key()
        line = public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        self.seed = seed
        self.public_line = f"{line.decode()} {COMMENT}"

    @property
    def fingerprint(self) -> str:
        """`SHA256:…`, as ssh-keygen -l prints it."""
        return fingerprint(self.public_line.split()[1])


class FleetKeys:
    """The keys in one directory; every method raises ExocompError when a file can't be used: open to others, not
    ours, altered, or sealed with another master key."""

    def __init__(self, directory: Path, sealer: Sealer) -> None:
        self.directory = directory
        self._sealer = sealer

    def current(self) -> FleetKey:
        """Made at first use."""
        return self._loaded(self.directory / FILE)

    def pending(self) -> FleetKey | None:
        """The key that a rotation under way leads to."""
        path = self.directory / NEXT
        return self._loaded(path) if os.path.lexists(path) else None

    def begin_rotation(self) -> FleetKey:
        """Make the pending key, or return the one that is there."""
        return self._loaded(self.directory / NEXT)

    def promote(self) -> None:
        """The pending key becomes the current one, on disk when this returns; nothing happens when there is none."""
        try:
            with contextlib.suppress(FileNotFoundError):
                os.replace(self.directory / NEXT, self.directory / FILE)
            private_file.sync(self.directory)
        except OSError as error:
            raise ExocompError(
                f"cannot put fleet key {self.directory / NEXT} into place: {error.strerror}"
            ) from error

    def _loaded(self, path: Path) -> FleetKey:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.path.lexists(path):
                private_file.create(path, self._sealer.seal(ROW, _generated()))
            content = private_file.read(path, "fleet key", cure=_CURE)
            if content.startswith(_PEM):
                return self._taken_over(path, content)
        except OSError as error:
            raise ExocompError(f"cannot use fleet key {path}: {error.strerror}") from error
        try:
            return FleetKey(self._sealer.unseal(ROW, content))
        except ExocompError as error:
            raise ExocompError(f"cannot use fleet key {path}: {error.what}", hint=error.hint) from None

    def _taken_over(self, path: Path, pem: bytes) -> FleetKey:
        """A key in OpenSSH's own format, as an operator may bring one, is sealed in its place."""
        key = FleetKey(_private(path, pem).private_bytes_raw())
        sealed = path.with_name(f".{path.name}.sealed")
        sealed.unlink(missing_ok=True)
        private_file.create(sealed, self._sealer.seal(ROW, key.seed))
        os.replace(sealed, path)
        private_file.sync(path.parent)
        return key


def _generated() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes_raw()


def _private(path: Path, pem: bytes) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = serialization.load_ssh_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ExocompError(
            f"fleet key {path} is not an unencrypted ed25519 key in OpenSSH's format",
            hint=f"restore it from a backup, or {_CURE}",
        )
    return key
