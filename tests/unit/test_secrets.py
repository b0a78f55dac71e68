"""The master key and what it seals: opens with that key as that row, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exocomp.config import Layout
from exocomp.errors import ExocompError
from exocomp.secrets import master
from exocomp.secrets.sealing import Seal

PLAIN = b"the plain text"


def test_what_was_sealed_opens_again_and_is_nowhere_in_the_blob() -> None:
    seal = Seal(b"k" * 32)
    one, two = seal.seal("row/1", PLAIN), seal.seal("row/1", PLAIN)
    assert seal.unseal("row/1", one) == seal.unseal("row/1", two) == PLAIN
    assert one != two
    assert PLAIN not in one


def test_a_blob_of_another_row_does_not_open() -> None:
    seal = Seal(b"k" * 32)
    with pytest.raises(ExocompError, match="row/2 is not what was sealed there"):
        seal.unseal("row/2", seal.seal("row/1", PLAIN))


def test_no_bit_can_be_flipped_and_no_byte_be_missing() -> None:
    seal = Seal(b"k" * 32)
    sealed = seal.seal("row/1", PLAIN)
    for bit in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ExocompError):
            seal.unseal("row/1", bytes(changed))
    for length in range(len(sealed)):
        with pytest.raises(ExocompError):
            seal.unseal("row/1", sealed[:length])


def test_another_key_does_not_open_it_and_is_told_apart() -> None:
    theirs, ours = Seal(b"k" * 32), Seal(b"x" * 32)
    with pytest.raises(ExocompError, match=f"sealed with master key {theirs.id}, and this one is {ours.id}"):
        ours.unseal("row/1", theirs.seal("row/1", PLAIN))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def test_the_first_use_makes_the_key_private_and_later_ones_find_it(layout: Layout) -> None:
    seal = master.unlock(layout, {}, None)
    assert layout.master_key.stat().st_mode & 0o7777 == 0o600
    assert master.unlock(layout, {}, seal.id).id == seal.id
    assert master.unlock(layout, {}, None).id == seal.id  # a daemon that died before it noted the id
    assert [path.name for path in layout.root.iterdir()] == ["master.key"]


def test_a_lost_key_is_refused_and_no_new_one_is_made(layout: Layout) -> None:
    seal = master.unlock(layout, {}, None)
    layout.master_key.unlink()
    with pytest.raises(ExocompError, match="is lost"):
        master.unlock(layout, {}, seal.id)
    assert list(layout.root.iterdir()) == []


def test_a_swapped_key_is_refused(layout: Layout) -> None:
    seal = master.unlock(layout, {}, None)
    layout.master_key.write_text("ab" * 32)
    with pytest.raises(ExocompError, match=f"this data dir is sealed with {seal.id}"):
        master.unlock(layout, {}, seal.id)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_can_read_is_refused(layout: Layout, mode: int) -> None:
    seal = master.unlock(layout, {}, None)
    layout.master_key.chmod(mode)
    with pytest.raises(ExocompError, match=f"mode {mode:04o}: others can reach it"):
        master.unlock(layout, {}, seal.id)


@pytest.mark.parametrize("content", [b"", b"ab" * 31, b"ab" * 33, b"zz" * 32, b"\xff" * 64, b"AB" * 32])
def test_what_is_no_key_is_refused_and_kept(layout: Layout, content: bytes) -> None:
    layout.master_key.write_bytes(content)
    layout.master_key.chmod(0o600)
    with pytest.raises(ExocompError, match="is not 64 hexadecimal digits"):
        master.unlock(layout, {}, None)
    assert layout.master_key.read_bytes() == content


def test_a_link_a_pipe_or_a_directory_is_no_key(layout: Layout, tmp_path: Path) -> None:
    true = tmp_path / "true"
    true.write_text("ab" * 32)
    true.chmod(0o600)
    layout.master_key.symlink_to(true)
    with pytest.raises(ExocompError):
        master.unlock(layout, {}, None)
    layout.master_key.unlink()
    os.mkfifo(layout.master_key, 0o600)
    with pytest.raises(ExocompError):
        master.unlock(layout, {}, None)
    layout.master_key.unlink()
    layout.master_key.mkdir()
    with pytest.raises(ExocompError):
        master.unlock(layout, {}, None)


def test_a_credential_of_systemd_is_the_key_and_no_file_is_made(layout: Layout, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    given = credentials / master.CREDENTIAL
    given.write_text("cd" * 32 + "\n")
    given.chmod(0o440)  # as systemd shows it where an access list is used
    seal = master.unlock(layout, {"CREDENTIALS_DIRECTORY": str(credentials)}, None)
    assert seal.id == Seal(bytes.fromhex("cd" * 32)).id
    assert not layout.master_key.exists()
