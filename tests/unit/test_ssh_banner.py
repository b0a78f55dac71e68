"""The banner parser and the KEXINIT reader give the same answer however the bytes are cut."""

from __future__ import annotations

import struct

import pytest

from exocomp.ssh.banner import BannerReader, NotSsh
from exocomp.ssh.kexinit import Overheard


def read(stream: bytes, size: int) -> str | NotSsh | None:
    reader = BannerReader()
    for at in range(0, len(stream), size):
        said = reader.feed(stream[at : at + size])
        if said is not None:
            return said
    return None


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("stream", "banner"),
    [
        (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "SSH-2.0-OpenSSH_9.2p1 Debian-2"),
        (b"SSH-2.0-dropbear\n", "SSH-2.0-dropbear"),
        (b"SSH-1.99-Cisco-1.25\r\n", "SSH-1.99-Cisco-1.25"),
        (b"hello\r\n\r\nSSH is near\r\nSSH-2.0-x\r\nmore", "SSH-2.0-x"),
        (b"SSH-2.0-evil\x1b[2J\r\n", "SSH-2.0-evil?[2J"),
    ],
)
def test_a_banner_is_found(stream: bytes, banner: str, size: int) -> None:
    assert read(stream, size) == banner


@pytest.mark.parametrize("size", [1, 5, 100_000])
@pytest.mark.parametrize(
    "stream",
    [
        b"SSH-1.5-old\r\n",
        b"SSH-3.0-new\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"x" * 9000,
        b"hello\r\n" * 2000 + b"SSH-2.0-late\r\n",
        b"\r\n" * 200 + b"SSH-2.0-late\r\n",
    ],
)
def test_what_is_foreign_or_endless_is_refused(stream: bytes, size: int) -> None:
    assert isinstance(read(stream, size), NotSsh)


@pytest.mark.parametrize("stream", [b"", b"SSH-", b"SSH-2.0-half", b"welcome\r\nplease wait\r\n", b"SSH-2.0"])
def test_too_little_is_neither(stream: bytes) -> None:
    assert read(stream, 1) is None


def test_what_was_said_before_the_end_is_quoted_safely() -> None:
    reader = BannerReader()
    assert reader.feed(b'Exceeded "Max"\x1b[31mStartups\xff\r\n') is None
    assert reader.end().reason == 'closed the connection after "Exceeded ?Max??[31mStartups?"'
    assert BannerReader().end().reason == "closed the connection without a banner"


def kexinit(*algorithms: str) -> bytes:
    lists = (b"curve25519-sha256", ",".join(algorithms).encode(), *[b"none"] * 8)
    payload = b"\x14" + b"c" * 16 + b"".join(struct.pack(">I", len(one)) + one for one in lists) + b"\0" * 5
    return struct.pack(">IB", len(payload) + 5, 4) + payload + b"pppp"


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_key_types_of_a_server_are_overheard(size: int) -> None:
    names = ("rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519-cert-v01@openssh.com", "ssh-ed25519", "ssh-dss")
    stream = b"hi\r\nSSH-2.0-x\r\n" + kexinit(*names) + b"what follows"
    heard = Overheard()
    assert all(heard.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    assert heard.banner == "SSH-2.0-x"
    assert heard.algorithms == names
    assert heard.key_types == ("ssh-ed25519", "ssh-rsa")


@pytest.mark.parametrize("packet", [b"\0\0\0\x0c\x04\x01" + b"x" * 20, b"\xff" * 40, kexinit()])
def test_what_is_no_kexinit_offers_no_key(packet: bytes) -> None:
    heard = Overheard()
    heard.feed(b"SSH-2.0-x\r\n" + packet)
    assert heard.key_types == ()
    assert heard.end() is None
