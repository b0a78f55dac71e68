"""What may be dialled, as a table of values."""

from collections.abc import Callable
from typing import Any

import pytest

from exocomp.inventory import address
from exocomp.inventory.address import Fault

ADDRESSES = {
    "192.0.2.1": "192.0.2.1",
    "2001:DB8:0:0::11": "2001:db8::11",
    "::1": "::1",
    "::ffff:192.0.2.1": "::ffff:192.0.2.1",
    "fe80::1%eth0": "fe80::1%eth0",
    "FE80:0::1%br-0.5": "fe80::1%br-0.5",
    "web1": "web1",
    "WEB1.Example.TEST": "WEB1.Example.TEST",
    "web1.example.test.": "web1.example.test.",
    "my_host": "my_host",
    "bücher.example.test": "bücher.example.test",
    "サーバ1": "サーバ1",
    "xn--bcher-kva.example": "xn--bcher-kva.example",
    "0xcafe.example.test": "0xcafe.example.test",
    "1password.test": "1password.test",
}
NO_ADDRESSES: dict[Any, str] = {
    "": "empty",
    "-oProxyCommand=id": "option",
    "-l": "option",
    "deploy@192.0.2.1": "user",
    "192.0.2.1:22": "port",
    "web1:22": "port",
    "192.0.2.1/24": "network",
    "2001:db8::/64": "network",
    "ssh://192.0.2.1": "URL",
    "[2001:db8::1]": "brackets",
    "[2001:db8::1]:22": "brackets",
    "192.0.2.1\n": "white space",
    " 192.0.2.1": "white space",
    "192.0.2.1 192.0.2.2": "white space",
    "192.0.2.1\u00a0": "white space",
    "192.0.2.1\u200b": "white space or control",
    "web\x00": "control",
    "\x1b[31mweb": "control",
    "3221225995": "192.0.2.11",
    "10": "0.0.0.10",
    "192.0.2.013": "192.0.2.11",
    "0x7f.1": "127.0.0.1",
    "127.1": "127.0.0.1",
    "0x7f000001": "127.0.0.1",
    "256.1.1.1": "not an IPv4",
    "1.2.3.4.5": "not an IPv4",
    "192.0.2.1.": "IPv4",
    "１９２.0.2.1": "look-alike",
    "2001:db8::g": "not an IPv6",
    "2001:db8::1%eth0": "zone",
    "fe80::1%": "zone",
    "fe80::1%eth0;id": "zone",
    "web1%eth0": "no host name",
    "*.example.test": "no host name",
    "web?": "no host name",
    "web1,web2": "no host name",
    "$(id)": "no host name",
    "`id`": "no host name",
    "{{ x }}": "white space",
    "{{x}}": "no host name",
    "web..test": "not a host name",
    ".test": "not a host name",
    "a" * 256: "not a host name",
    5: "not a string",
    None: "not a string",
    True: "not a string",
}
PORTS: list[tuple[Any, Any, int]] = [(None, None, 22), (2222, "2222", 2222), (2222, " 2222 ", 2222), (22, 22.0, 22)]
NO_PORTS: list[tuple[Any, Any]] = [(0, 0), (-1, -1), (65536, 65536), (1, True), ("22x", "22x"), (None, "x"), ([], [])]
USERS = {
    None: None,
    "": None,
    "root": "root",
    "svc-deploy_1": "svc-deploy_1",
    "me@REALM": "me@REALM",
    "DOM\\me": "DOM\\me",
}
NO_USERS = ["-oProxyCommand=id", "a b", "a\n", 'a"', "$(id)", "a;b", "a\\", 5, ["root"]]
NAMES = ["web1", "wëb-1", "サーバ1", "2001:db8::1", "web 1", "10", "tag:Role=db", "WEB1"]
NO_NAMES = [
    "-l",
    " web",
    "web\n",
    "a,b",
    "../../etc/passwd",
    "a/b",
    "{{ x }}",
    "!web",
    "~web",
    "@file",
    "a\x1b[0m",
    "..",
]


@pytest.mark.parametrize(("given", "dialled"), ADDRESSES.items())
def test_an_address_is_dialled_in_the_form_that_ssh_prints(given: str, dialled: str) -> None:
    assert address.address(given) == dialled


@pytest.mark.parametrize(("given", "why"), NO_ADDRESSES.items())
def test_what_ssh_would_read_as_something_else_is_refused(given: Any, why: str) -> None:
    refused(address.address, given, why=why)


@pytest.mark.parametrize(("value", "given", "port"), PORTS)
def test_a_port_is_what_ansible_makes_of_it(value: Any, given: Any, port: int) -> None:
    assert address.port(value, given) == port


@pytest.mark.parametrize(("value", "given"), NO_PORTS)
def test_a_port_that_no_socket_has_is_refused(value: Any, given: Any) -> None:
    refused(address.port, value, given, why="not")


@pytest.mark.parametrize(("given", "user"), USERS.items())
def test_a_user_is_kept(given: Any, user: str | None) -> None:
    assert address.user(given) == user


@pytest.mark.parametrize("given", NO_USERS)
def test_a_user_that_ssh_would_refuse_or_misread_is_refused(given: Any) -> None:
    refused(address.user, given, why="")


@pytest.mark.parametrize("given", NAMES)
def test_a_name_may_be_of_any_script(given: str) -> None:
    assert address.name(given) == given


@pytest.mark.parametrize("given", NO_NAMES)
def test_a_name_that_is_no_file_name_or_pattern_is_refused(given: str) -> None:
    refused(address.name, given, why="")


def refused(rule: Callable[..., object], *values: Any, why: str) -> None:
    with pytest.raises(Fault) as fault:
        rule(*values)
    assert why in str(fault.value)
