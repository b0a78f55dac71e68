"""The fleet key's file: made once, private, refused when others can reach it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from exocomp.errors import ExocompError
from exocomp.secrets.sealing import Seal
from exocomp.ssh.fleet_key import FILE, FleetKeys

SEAL = Seal(b"k" * 32)


def keys(directory: Path, seal: Seal = SEAL) -> FleetKeys:
    return FleetKeys(directory, seal)


def made(directory: Path) -> Path:
    """The file of a key that was made just now."""
    keys(directory).current()
    return directory / FILE


def test_it_is_made_once_and_private(tmp_path: Path) -> None:
    first = keys(tmp_path / "keys").current()
    again = keys(tmp_path / "keys").current()
    assert first.public_line == again.public_line
    assert first.public_line.startswith("ssh-ed25519 AAAA")
    assert (tmp_path / "keys" / FILE).stat().st_mode & 0o7777 == 0o600
    assert (tmp_path / "keys").stat().st_mode & 0o7777 == 0o700
    assert [file.name for file in (tmp_path / "keys").iterdir()] == [FILE]


def test_its_private_half_lies_sealed(tmp_path: Path) -> None:
    key = keys(tmp_path).current()
    public = Ed25519PrivateKey.from_private_bytes(key.seed).public_key()
    assert key.public_line.startswith(public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())
    content = (tmp_path / FILE).read_bytes()
    assert key.seed not in content
    assert b"PRIVATE KEY" not in content


def test_it_opens_with_the_master_key_that_sealed_it_and_no_other(tmp_path: Path) -> None:
    path = made(tmp_path)
    with pytest.raises(ExocompError, match="was sealed with master key"):
        keys(tmp_path, Seal(b"x" * 32)).current()
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(changed)
    with pytest.raises(ExocompError, match="changed or moved"):
        keys(tmp_path).current()
    assert path.read_bytes() == changed


def test_a_key_in_openssh_format_is_taken_and_sealed(tmp_path: Path) -> None:
    own = Ed25519PrivateKey.generate()
    pem = own.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    path = tmp_path / FILE
    path.write_bytes(pem)
    path.chmod(0o600)
    assert keys(tmp_path).current().seed == own.private_bytes_raw()
    assert pem not in path.read_bytes()
    assert path.stat().st_mode & 0o7777 == 0o600
    assert keys(tmp_path).current().seed == own.private_bytes_raw()
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_it_is_private_under_a_wide_open_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        keys(tmp_path / "keys").current()
    finally:
        os.umask(old)
    assert (tmp_path / "keys" / FILE).stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    made(tmp_path).chmod(mode)
    with pytest.raises(ExocompError, match=f"mode {mode:04o}"):
        keys(tmp_path).current()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_key_of_somebody_else_is_refused(tmp_path: Path) -> None:
    os.chown(made(tmp_path), 12345, -1)
    with pytest.raises(ExocompError, match="belongs to uid 12345"):
        keys(tmp_path).current()


@pytest.mark.parametrize(
    "put",
    [
        lambda path, true: path.symlink_to(true),
        lambda path, true: path.symlink_to(true.with_name("nowhere")),
        lambda path, true: os.mkfifo(path, 0o600),
        lambda path, true: path.mkdir(),
    ],
    ids=["link", "dangling link", "fifo", "directory"],
)
def test_only_a_regular_file_is_a_key(tmp_path: Path, put: Callable[[Path, Path], None]) -> None:
    true = made(tmp_path / "true")
    folder = tmp_path / "keys"
    folder.mkdir()
    put(folder / true.name, true)
    with pytest.raises(ExocompError):
        keys(folder).current()


@pytest.mark.parametrize("content", [b"", b"not a key", b"\x01short", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"])
def test_what_is_no_key_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = made(tmp_path)
    path.write_bytes(content)
    with pytest.raises(ExocompError, match=r"is not an unencrypted ed25519 key|changed or moved"):
        keys(tmp_path).current()
    assert path.read_bytes() == content
