"""The fleet key: one ed25519 key pair, its private half a 0600 file in the data dir; while it is rotated, two."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from exocomp.errors import ExocompError
from exocomp.ssh.keys import fingerprint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

COMMENT = "exocomp-fleet"
FILE = "fleet_ed25519"
NEXT = "fleet_ed25519.next"  # there only while a rotation is under way


class FleetKey:
    """`public_line` is one authorized_keys line; the private half stays in its file until it is asked for."""

    def __init__(self, public_line: str, private_path: Path) -> None:
        self.public_line = public_line
        self.private_path = private_path

    @classmethod
    def load_or_create(cls, keys_dir: Path) -> FleetKey:
        """Raises ExocompError when the file is readable by others, not ours, or not an ed25519 key."""
        return cls._loaded(keys_dir / FILE)

    @classmethod
    def pending(cls, keys_dir: Path) -> FleetKey | None:
        """The key that a rotation under way leads to; raises ExocompError as `load_or_create` does."""
        return cls._loaded(keys_dir / NEXT) if os.path.lexists(keys_dir / NEXT) else None

    @classmethod
    def begin_rotation(cls, keys_dir: Path) -> FleetKey:
        """Make the pending key, or return the one that is there; raises ExocompError as `load_or_create` does."""
        return cls._loaded(keys_dir / NEXT)

    @staticmethod
    def promote(keys_dir: Path) -> None:
        """The pending key becomes the current one, on disk when this returns; nothing happens when there is none."""
        try:
            with contextlib.suppress(FileNotFoundError):
                os.replace(keys_dir / NEXT, keys_dir / FILE)
            _sync(keys_dir)
        except OSError as error:
            raise ExocompError(f"cannot put fleet key {keys_dir / NEXT} into place: {error.strerror}") from error

    @classmethod
    def _loaded(cls, path: Path) -> FleetKey:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.path.lexists(path):
                _create(path)
            return cls(_public_line(_private(path, _read(path))), path)
        except OSError as error:
            raise ExocompError(f"cannot use fleet key {path}: {error.strerror}") from error

    @property
    def fingerprint(self) -> str:
        """`SHA256:…`, as ssh-keygen -l prints it."""
        return fingerprint(self.public_line.split()[1])

    def seed(self) -> bytes:
        """The private half, 32 bytes (RFC 8032 5.1.5); raises ExocompError as `load_or_create` does."""
        try:
            return _private(self.private_path, _read(self.private_path)).private_bytes_raw()
        except OSError as error:
            raise ExocompError(f"cannot use fleet key {self.private_path}: {error.strerror}") from error


def _create(path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, 0o600)
            file.write(pem)
            file.flush()
            os.fsync(fd)
        try:
            os.link(draft, path)  # unlike rename, never replaces the key of whoever was first
        except FileExistsError:
            return
    finally:
        draft.unlink(missing_ok=True)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> bytes:
    # Non-blocking, so that a FIFO in its place can't hold the daemon.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ExocompError(f"fleet key {path} is not a regular file")
        if status.st_uid != os.geteuid():
            raise ExocompError(
                f"fleet key {path} belongs to uid {status.st_uid}, not to {os.geteuid()}",
                hint="run the daemon as the owner of its data dir",
            )
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise ExocompError(
                f"fleet key {path} has mode {stat.S_IMODE(status.st_mode):04o}: others can reach it",
                hint=f"if nobody can have read it: chmod 600 {path}; else delete it and onboard the hosts again",
            )
        return file.read()


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
            hint="restore it from a backup, or delete it and onboard the hosts again",
        )
    return key


def _public_line(key: Ed25519PrivateKey) -> str:
    from cryptography.hazmat.primitives import serialization

    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{public.decode()} {COMMENT}"
