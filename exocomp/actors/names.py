"""Names inside the jail, which has no UDP: the daemon resolves the hosts into the job's own /etc/hosts."""

from __future__ import annotations

import socket
from collections.abc import Iterable

import trio

from exocomp.model import Host

LOCAL = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
AT_ONCE = 32
PATIENCE_S = 5.0


async def hosts_file(hosts: Iterable[Host]) -> str:
    """hosts(5) text that names every host of `hosts` which resolves now; addresses need no line."""
    found: dict[str, list[str]] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def resolve(name: str) -> None:
        async with limit:
            with trio.move_on_after(PATIENCE_S):
                found[name] = await _addresses(name)

    names = sorted({host.address for host in hosts if host.over_ssh and not is_address(host.address)})
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(resolve, name)
    return LOCAL + "".join(f"{address} {name}\n" for name in names for address in found.get(name, ()))


def is_address(text: str) -> bool:
    """Whether it is an IPv4 or IPv6 literal, a zone included."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text.partition("%")[0])
        except OSError:
            continue
        return True
    return False


async def _addresses(name: str) -> list[str]:
    try:
        answers = await trio.socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return []  # ssh in the job says so, by name
    return list(dict.fromkeys(str(address[0]) for *_, address in answers))
