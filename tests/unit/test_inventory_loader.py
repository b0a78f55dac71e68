"""Ansible's own loader, real: what it dials, what it refuses, and that nothing in an output is ever evaluated."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exocomp.errors import ExocompError, WrongUsage
from exocomp.inventory import generations, loader, shape
from exocomp.model import Host, Output

Ask = Callable[[Any], bytes]
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIJ6sDVYiBdQ1yu5ZbV5N2bWvZkb4cOw8Qb9P5mYBbkN1"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loader")


@pytest.fixture(scope="module")
def ask(home: Path) -> Iterator[Ask]:
    """One process, started once, answers every question of this file; content is written as it is."""
    with subprocess.Popen(
        loader.loader_argv(), env=loader.loader_env(home), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def answer(content: Any) -> bytes:
            file, _ = generations.write(content, home / "generations")
            process.stdin.write(loader.question(file))
            process.stdin.flush()
            return process.stdout.readline()

        yield answer
        process.stdin.close()


def compose(inventory: Any) -> dict[str, Any]:
    return shape.compose({"ansible_inventory": Output(value=inventory)})


def hosts(ask: Ask, variables: dict[str, Any], **more: Any) -> tuple[Host, ...]:
    return loader.parse_hosts(ask(compose({"all": {"hosts": {"web1": variables}, **more}})))


DIALLED: dict[str, tuple[dict[str, Any], Host]] = {
    "nothing": ({}, Host(name="web1", address="web1")),
    "empty user": ({"ansible_user": ""}, Host(name="web1", address="web1")),
    "number as user": ({"ansible_user": 1000}, Host(name="web1", address="web1", user="1000")),
    "port in ssh_args beats ansible_port": (
        {"ansible_port": 22, "ansible_ssh_args": "-p 2222"},
        Host(name="web1", address="web1", port=2222),
    ),
    "ansible_port beats port in common args": (
        {"ansible_port": "2223", "ansible_ssh_common_args": "-p 2222 -l core"},
        Host(name="web1", address="web1", port=2223, user="core"),
    ),
    "HostName in extra args": (
        {"ansible_ssh_extra_args": "-o HostName=%h.example.test"},
        Host(name="web1", address="web1.example.test"),
    ),
    "jump host in ssh_args": (
        {"ansible_ssh_args": "-J jump", "ansible_ssh_common_args": "-J other"},
        Host(name="web1", address="web1", proxy="ProxyJump=jump"),
    ),
    "paramiko's proxy": (
        {"ansible_connection": "paramiko", "ansible_paramiko_proxy_command": "nc %h %p"},
        Host(name="web1", address="web1", connection="paramiko", proxy="ProxyCommand=nc %h %p"),
    ),
    "legacy identity file": (
        {"ansible_ssh_private_key_file": "/keys/id"},
        Host(name="web1", address="web1", identity_file="/keys/id"),
    ),
    "collection prefix": (
        {"ansible_connection": "ansible.legacy.ssh"},
        Host(name="web1", address="web1", connection="ssh"),
    ),
    "null connection": ({"ansible_connection": None}, Host(name="web1", address="web1")),
    "elsewhere": (
        {"ansible_connection": "winrm", "ansible_port": "5986", "ansible_user": "x", "ansible_host": "10.0.0.1/8"},
        Host(name="web1", address="10.0.0.1/8", port=5986, user="x", connection="winrm"),
    ),
    "declared keys": (
        {"exocomp_host_keys": [f"ssh-ed25519 {KEY} root@web1\n", f"ssh-ed25519 {KEY}"]},
        Host(name="web1", address="web1", declared_keys=(f"ssh-ed25519 {KEY}",) * 2),
    ),
    "one declared key": (
        {"exocomp_host_keys": f"ssh-ed25519 {KEY}\n"},
        Host(name="web1", address="web1", declared_keys=(f"ssh-ed25519 {KEY}",)),
    ),
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "empty address": ({"ansible_host": ""}, 'address "" is empty'),
    "fraction as port": ({"ansible_port": 22.5}, "port 22.5 is not a port number"),
    "empty port": ({"ansible_port": ""}, 'port "" is not a port number'),
    "list as port": ({"ansible_port": [22]}, "port [22] is not a port number"),
    "list as user": ({"ansible_user": ["root"]}, 'user ["root"]'),
    "list as connection": ({"ansible_connection": ["ssh"]}, "ansible_connection"),
    "list as arguments": ({"ansible_ssh_common_args": ["-p", "22"]}, "ssh_common_args"),
    "open quote in arguments": ({"ansible_ssh_common_args": "-o 'x"}, "can't be split"),
    "bad port in arguments": ({"ansible_ssh_args": "-p ssh"}, 'port in ssh arguments "ssh"'),
    "option as user in arguments": ({"ansible_ssh_args": "-l -oProxyCommand=id"}, "user in ssh arguments"),
    "option as HostName": ({"ansible_ssh_args": "-o HostName=-oProxyCommand=id"}, "HostName in ssh arguments"),
    "alias of the host key": ({"ansible_ssh_extra_args": "-o HostKeyAlias=x"}, "HostKeyAlias"),
    "key without type": ({"exocomp_host_keys": [KEY]}, "exocomp_host_keys"),
    "key of another type": ({"exocomp_host_keys": [f"ssh-rsa {KEY}"]}, "not of the type"),
    "key that is a map": ({"exocomp_host_keys": {"ed25519": KEY}}, "not a list of public keys"),
}


@pytest.mark.parametrize("kind", DIALLED)
def test_a_host_is_dialled_as_ansible_would_dial_it(kind: str, ask: Ask) -> None:
    variables, host = DIALLED[kind]
    assert hosts(ask, variables) == (host,)


@pytest.mark.parametrize("kind", REFUSED)
def test_a_host_that_cannot_be_dialled_is_refused_by_name_and_value(kind: str, ask: Ask) -> None:
    variables, words = REFUSED[kind]
    with pytest.raises(WrongUsage) as refusal:
        hosts(ask, variables)
    assert "web1: " in refusal.value.what
    assert words in refusal.value.what


def test_a_sensitive_inventory_is_refused_without_its_values(ask: Ask) -> None:
    answer = ask(compose({"all": {"hosts": {"web1": {"ansible_host": "s3cr3t@x", "ansible_port": "s3cr3t"}}}}))
    with pytest.raises(WrongUsage, match="web1: address is a sensitive value") as refusal:
        loader.parse_hosts(answer, sensitive=True)
    assert "s3cr3t" not in refusal.value.what


def test_group_variables_and_ranges_reach_every_host(ask: Ask) -> None:
    found = hosts(ask, {}, children={"web": {"hosts": {"w[08:10]:2222": None}, "vars": {"ansible_user": "core"}}})
    assert [(host.name, host.port, host.user) for host in found] == [
        ("web1", 22, None),
        ("w08", 2222, "core"),
        ("w09", 2222, "core"),
        ("w10", 2222, "core"),
    ]


def test_a_wrong_group_variable_is_reported_for_each_host_of_the_group(ask: Ask) -> None:
    with pytest.raises(WrongUsage) as refusal:
        loader.parse_hosts(ask(compose({"web": {"hosts": {"a": {}, "b": {}}, "vars": {"ansible_port": 0}}})))
    assert "a: port 0" in refusal.value.what
    assert "b: port 0" in refusal.value.what


def test_a_template_that_is_not_from_an_output_resolves_when_it_is_an_option_of_the_connection(ask: Ask) -> None:
    written = {"ansible_host": "{{ inventory_hostname }}.example.test", "note": "{{ undefined_thing }} {% raw %}"}
    assert loader.parse_hosts(ask({"all": {"hosts": {"web1": written}}})) == (
        Host(name="web1", address="web1.example.test"),
    )


def test_a_template_that_fails_in_an_option_of_the_connection_names_the_host(ask: Ask) -> None:
    with pytest.raises(WrongUsage, match=r"web1: address .* is not usable: .*undefined_thing"):
        loader.parse_hosts(ask({"all": {"hosts": {"web1": {"ansible_host": "{{ undefined_thing }}"}}}}))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "empty"),
        ({"web": {"hosts": ["a"]}}, 'Invalid "hosts" entry for "web" group'),
        ({"all": {"hosts": {"web[c:a]": None}}}, "range"),
    ],
)
def test_what_ansible_refuses_is_told_in_its_own_words(content: Any, words: str, ask: Ask) -> None:
    with pytest.raises(ExocompError, match="ansible cannot load the inventory: ") as refusal:
        loader.parse_hosts(ask(content))
    assert words in refusal.value.what


def test_one_file_can_be_asked_about_without_stdin(home: Path) -> None:
    file, _ = generations.write(compose({"web": {"hosts": {"a": None}}}), home)
    done = subprocess.run(
        loader.loader_argv(file), env=loader.loader_env(home), stdin=subprocess.DEVNULL, capture_output=True
    )
    assert loader.parse_hosts(done.stdout, done.stderr, done.returncode) == (Host(name="a", address="a"),)


def test_a_loader_that_dies_is_told_by_its_last_words() -> None:
    with pytest.raises(ExocompError, match="ended with 1 and no answer: ModuleNotFoundError: ansible"):
        loader.parse_hosts(b"", b"Traceback\nModuleNotFoundError: ansible\n", 1)


names = st.text(st.sampled_from("abz09.-_ :[]é{}#%'\"\\\n,"), min_size=1, max_size=8) | st.text(
    min_size=1, max_size=6
)
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=4,
)
host_maps = st.none() | st.dictionaries(names, st.none() | st.dictionaries(names, values, max_size=2), max_size=3)
leaves = st.none() | st.fixed_dictionaries(
    {}, optional={"hosts": host_maps, "vars": st.none() | st.dictionaries(names, values, max_size=2)}
)
groups = st.recursive(
    leaves,
    lambda inner: st.fixed_dictionaries({"children": st.dictionaries(names, inner, max_size=2), "hosts": host_maps}),
    max_leaves=3,
)


def plain_names(content: dict[str, Any]) -> set[str]:
    """Host keys as written, for inventories whose keys are neither ranges nor carry a port."""
    found: set[str] = set()
    for group in content.values():
        for name in (group or {}).get("hosts") or {}:
            found.add(name)
        found |= plain_names((group or {}).get("children") or {})
    return found


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.dictionaries(names, groups, max_size=3))
def test_what_compose_accepts_names_the_same_hosts_for_ansible(ask: Ask, inventory: dict[str, Any]) -> None:
    try:
        content = compose(inventory)
    except WrongUsage:
        return
    answer = json.loads(ask(content))
    ours = plain_names(content)
    if "error" in answer or any("[" in name or ":" in name for name in ours):
        return
    assert {host["name"] for host in answer["hosts"]} == ours


def test_the_environment_is_ours_alone(home: Path) -> None:
    env = loader.loader_env(home)
    assert os.path.getsize(env["ANSIBLE_CONFIG"]) == 0
    assert {name for name in env if not name.startswith("ANSIBLE_")} == {"HOME", "PATH", "LC_ALL"}
