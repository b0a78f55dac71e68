"""The fleet key's file: made once, private, refused when others can reach it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from exocomp.errors import ExocompError
from exocomp.ssh.fleet_key import FleetKey


def test_it_is_made_once_and_private(tmp_path: Path) -> None:
    first = FleetKey.load_or_create(tmp_path / "keys")
    again = FleetKey.load_or_create(tmp_path / "keys")
    assert first.public_line == again.public_line
    assert first.public_line.startswith("ssh-ed25519 AAAA")
    assert first.private_path.stat().st_mode & 0o7777 == 0o600
    assert (tmp_path / "keys").stat().st_mode & 0o7777 == 0o700
    assert [file.name for file in (tmp_path / "keys").iterdir()] == [first.private_path.name]


def test_its_seed_is_the_private_half_of_the_public_line(tmp_path: Path) -> None:
    key = FleetKey.load_or_create(tmp_path)
    public = Ed25519PrivateKey.from_private_bytes(key.seed()).public_key()
    line = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert key.public_line.startswith(line)
    key.private_path.chmod(0o640)
    with pytest.raises(ExocompError, match="mode 0640"):
        key.seed()
    key.private_path.unlink()
    with pytest.raises(ExocompError, match="No such file"):
        key.seed()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")
def test_ssh_keygen_reads_the_same_public_key(tmp_path: Path) -> None:
    key = FleetKey.load_or_create(tmp_path)
    told = subprocess.run(["ssh-keygen", "-y", "-f", key.private_path], capture_output=True, text=True, check=True)
    assert told.stdout.split()[:2] == key.public_line.split()[:2]


def test_it_is_private_under_a_wide_open_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        key = FleetKey.load_or_create(tmp_path / "keys")
    finally:
        os.umask(old)
    assert key.private_path.stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    FleetKey.load_or_create(tmp_path).private_path.chmod(mode)
    with pytest.raises(ExocompError, match=f"mode {mode:04o}"):
        FleetKey.load_or_create(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_key_of_somebody_else_is_refused(tmp_path: Path) -> None:
    os.chown(FleetKey.load_or_create(tmp_path).private_path, 12345, -1)
    with pytest.raises(ExocompError, match="belongs to uid 12345"):
        FleetKey.load_or_create(tmp_path)


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
    true = FleetKey.load_or_create(tmp_path / "true").private_path
    keys = tmp_path / "keys"
    keys.mkdir()
    put(keys / true.name, true)
    with pytest.raises(ExocompError):
        FleetKey.load_or_create(keys)


@pytest.mark.parametrize("content", [b"", b"not a key", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"])
def test_what_is_no_key_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = FleetKey.load_or_create(tmp_path).private_path
    path.write_bytes(content)
    with pytest.raises(ExocompError, match="is not an unencrypted ed25519 key"):
        FleetKey.load_or_create(tmp_path)
    assert path.read_bytes() == content
