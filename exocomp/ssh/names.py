"""The names under which ssh looks a host key up."""

from __future__ import annotations

import socket


def pin_name(address: str, port: int) -> str:
    """Lower case, IPv6 in its shortest form; bare for port 22, `[host]:port` otherwise (sshd(8), known_hosts)."""
    return _with_port(canonical(address), port)


def spellings(address: str, port: int) -> tuple[str, ...]:
    """The canonical name and the one as given: ssh matches text, so a known_hosts line lists both."""
    as_given = _with_port(_bare(address), port)
    return tuple(dict.fromkeys((pin_name(address, port), as_given)))


def canonical(address: str) -> str:
    """Lower case; an IPv6 address as inet_ntop prints it, without brackets, its zone kept."""
    bare = _bare(address)
    literal, percent, zone = bare.partition("%")
    try:
        # Not the ipaddress module: it spells IPv4-mapped addresses unlike ssh, and differently by Python version.
        return socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, literal)) + percent + zone
    except OSError:
        return bare


def _bare(address: str) -> str:
    bare = address.strip().lower()
    return bare[1:-1] if bare.startswith("[") and bare.endswith("]") else bare


def _with_port(host: str, port: int) -> str:
    return host if port == 22 else f"[{host}]:{port}"
