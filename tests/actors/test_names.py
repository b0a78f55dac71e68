"""The hosts file of a job: names that resolve get their addresses, addresses need no line."""

from __future__ import annotations

import socket

import trio
import trio.testing

from exocomp.actors import names
from exocomp.model import Host


class Resolver(trio.abc.HostnameResolver):
    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):
        if host == b"web1.example.test":
            return [(socket.AF_INET, type, 6, "", (a, 0)) for a in ("192.0.2.1", "192.0.2.2", "192.0.2.1")]
        if host == b"slow.example.test":
            await trio.sleep_forever()
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def getnameinfo(self, sockaddr, flags):
        raise AssertionError("not asked")


async def test_names_become_lines_and_addresses_do_not(autojump_clock: trio.abc.Clock) -> None:
    trio.socket.set_custom_hostname_resolver(Resolver())
    addresses = (
        "web1.example.test",
        "192.0.2.9",
        "2001:db8::1",
        "fe80::1%eth0",
        "none.example.test",
        "slow.example.test",
    )
    hosts = [Host(name=f"h{n}", address=address) for n, address in enumerate(addresses)]
    text = await names.hosts_file([*hosts, Host(name="here", address="here.example.test", connection="local")])
    assert text == names.LOCAL + "192.0.2.1 web1.example.test\n192.0.2.2 web1.example.test\n"
