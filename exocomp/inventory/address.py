"""Which names, addresses, ports and users may be dialled; each rule returns the value to use or raises Fault."""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from typing import Any

_NUMERIC = re.compile(r"(0[xX][0-9A-Fa-f]*|\d+)(\.(0[xX][0-9A-Fa-f]*|\d+))*\.?", re.ASCII)
_ZONE = re.compile(r"[A-Za-z0-9_.-]+")
# What OpenSSH refuses in a user name since 9.6 (ssh.c, valid_ruser), plus white space.
_NOT_IN_USER = frozenset("'`\";&<>|(){}")
_NOT_IN_NAME = frozenset("/,{}\\")


class Fault(ValueError):
    """Why a value can't be used, as the end of a sentence that begins with the value."""


def address(value: Any) -> str:
    """A host name as it is, or an IP address in the form that ssh prints it (inet_ntop(3)).

    Raises Fault for anything that ssh would read as something else than a host: an option, `user@`, a port, a
    network, a URL, the number forms of inet_aton(3), characters that known_hosts patterns use.
    """
    if not isinstance(value, str):
        raise Fault("is not a string: write one address")
    if not value:
        raise Fault("is empty")
    _no_option(value)
    _one_word(value)
    if "://" in value:
        raise Fault("is a URL: write the host alone")
    if "@" in value:
        raise Fault("holds a user: put it in ansible_user")
    if "/" in value:
        raise Fault("is a network: write one address without /")
    if "[" in value or "]" in value:
        raise Fault("has brackets: write the address alone, and the port in ansible_port")
    if ":" in value:
        return _ipv6(value)
    if _NUMERIC.fullmatch(value):
        return _ipv4(value)
    return _host_name(value)


def port(value: Any, given: Any) -> int:
    """`value` is what ansible makes of `given`; None is 22, as for ssh. Raises Fault outside of 1 to 65535."""
    if given is None and value is None:
        return 22
    if isinstance(given, bool) or isinstance(value, bool) or not isinstance(value, int):
        raise Fault("is not a port number")
    if not 1 <= value <= 65535:
        raise Fault("is not between 1 and 65535")
    return value


def user(value: Any) -> str | None:
    """None and the empty string mean that ssh chooses. Raises Fault for an option or what OpenSSH refuses."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise Fault("is not a string")
    _no_option(value)
    _one_word(value)
    if bad := _NOT_IN_USER.intersection(value):
        raise Fault(f"holds {''.join(sorted(bad))}, which ssh refuses in a user name")
    if value.endswith("\\"):
        raise Fault("ends in a backslash, which ssh refuses in a user name")
    return value


def name(value: str) -> str:
    """An inventory name, which becomes a file name and a `--limit` pattern. Raises Fault; any script is welcome."""
    if value != value.strip() or not value.isprintable():
        raise Fault("has white space around it or control characters")
    if value.startswith(("-", "!", "&", "~", "@", ".")):
        raise Fault(f"begins with {value[0]!r}")
    if bad := _NOT_IN_NAME.intersection(value):
        raise Fault(f"holds {''.join(sorted(bad))}")
    return value


def _no_option(value: str) -> None:
    if value.startswith("-"):
        raise Fault("begins with '-': ssh would take it as an option")


def _one_word(value: str) -> None:
    if not value.isprintable() or any(character.isspace() for character in value):
        raise Fault("holds white space or control characters")


def _ipv6(value: str) -> str:
    literal, _, zone = value.partition("%")
    try:
        canonical = socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, literal))
    except OSError:
        if re.fullmatch(r"[^:]+:\d+", value):
            raise Fault("holds a port: put it in ansible_port") from None
        raise Fault("is not an IPv6 address") from None
    if "%" not in value:
        return canonical
    if not ipaddress.IPv6Address(literal).is_link_local or not _ZONE.fullmatch(zone):
        raise Fault("has a zone, which only a link-local address (fe80::/10) can have, such as fe80::1%eth0")
    return f"{canonical}%{zone}"


def _ipv4(value: str) -> str:
    try:
        return str(ipaddress.IPv4Address(value))
    except ipaddress.AddressValueError:
        pass
    try:
        meant = socket.inet_ntoa(socket.inet_aton(value))
    except OSError:
        raise Fault("is not an IPv4 address") from None
    raise Fault(f"is no dotted IPv4 address: ssh would dial {meant}")


def _host_name(value: str) -> str:
    folded = unicodedata.normalize("NFKC", value)
    if folded.isascii() and not value.isascii():
        raise Fault(f"is written in look-alike characters of {folded}")
    if bad := {char for char in value if not (char in "-._" or unicodedata.category(char)[0] in "LNM")}:
        raise Fault(f"holds {''.join(sorted(bad))}, which no host name has")
    labels = value.removesuffix(".").split(".")
    if not all(labels) or len(value.encode()) > 255:
        raise Fault("is not a host name")
    return value
