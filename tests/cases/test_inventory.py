"""Real-world outputs through compose and ansible's own loader; expected.json is what ansible gave to ssh."""

import ipaddress
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exocomp.errors import ExocompError, WrongUsage
from exocomp.inventory import generations, loader, shape
from exocomp.model import Host, Output

CASES = Path(__file__).parent / "inventory"
ACCEPTED = [
    "inv-01-string-port",
    "inv-02-ipv6-bare",
    "inv-05-name-colon-port",
    "inv-06-range-key",
    "inv-07-null-hosts",
    "inv-08-null-hostvars",
    "inv-09-null-ansible-host",
    "inv-14-group-var-port",
    "inv-15-two-groups-conflict",
    "inv-17-hostvars-split",
    "inv-18-child-depth",
    "inv-19-legacy-ssh-vars",
    "inv-21-proxyjump",
    "inv-23-nonssh",
    "inv-24-explicit-localhost",
    "inv-27-no-all-top",
    "inv-28-all-hosts-direct",
    "inv-29-empty",
    "inv-35-bad-group-names",
    "inv-36-host-eq-group",
    "inv-37-same-address-two-names",
    "inv-41-template-in-tag",
    "inv-43-unicode",
    "inv-46-uppercase",
    "inv-47-group-ansible-host",
    "inv-48-hostless-vars",
]
# What the one error must name: each host that is wrong with its value, or the path and what to change.
REFUSED = {
    "inv-11-bad-ports": [
        "p0: port 0 ",
        "p70000: port 70000 ",
        'ptxt: port "22x"',
        "pneg: port -1",
        "pbool: port true",
    ],
    "inv-12-dynamic-meta": ["_meta"],
    "inv-32-yaml-string": ["is a string", "drop jsonencode() or yamlencode()"],
    "inv-33-list-of-objects": ["is a list"],
    "inv-38-address-decorated": [
        'u: address "deploy@192.0.2.11"',
        'p: address "192.0.2.12:2222"',
        'cidr: address "192.0.2.13/24"',
        'url: address "ssh://192.0.2.14"',
        'nl: address "192.0.2.15\\n"',
        'sp: address " 192.0.2.16 "',
    ],
    "inv-40-option-injection": [
        'bad1: address "-oProxyCommand=touch$IFS/nonexistent/marker"',
        'bad2: user "-oProxyCommand=false"',
        '-l: name "-l"',
    ],
    "inv-45-list-host-value": ['web1: address ["192.0.2.11", "192.0.2.12"]', 'web2: address {"v4": "192.0.2.13"}'],
    "inv-50-integer-host": ['web1: address "3221225995"', 'web3: address "192.0.2.013"'],
}
HOSTLESS = ["inv-30-empty-object", "tf-01-no-outputs", "tf-02-null-inventory", "tf-05-odd-values"]
MAPPED = {
    "tf-04-sensitive-inventory": [("web1", "192.0.2.11", 22)],
    "tf-06-map-unify": [("web1", "192.0.2.11", 2222), ("web2", "192.0.2.12", 22)],
    "ans-01-template-injection": [("a", "a", 22)],
}
EVERY = [*ACCEPTED, *REFUSED, *HOSTLESS, *MAPPED]


def outputs(case: str) -> dict[str, Output]:
    directory = CASES / case
    if (listed := directory / "expected_output.json").exists():
        found = json.loads(listed.read_text())
        return {key: Output(value=out["value"], sensitive=out["sensitive"]) for key, out in found.items()}
    given = directory / "inventory.yml"
    value = given.read_text() if given.exists() else json.loads((directory / "inventory.json").read_text())
    return {"ansible_inventory": Output(value=value)}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Host, ...]]:
    """One loader process answers for all cases."""
    home = tmp_path_factory.mktemp("loader")
    asked: dict[str, bytes] = {}
    refused: dict[str, ExocompError] = {}
    for case in EVERY:
        try:
            file, _ = generations.write(shape.compose(outputs(case)), home / case)
            asked[case] = loader.question(file)
        except ExocompError as error:
            refused[case] = error
    done = subprocess.run(
        loader.loader_argv(),
        input=b"".join(asked.values()),
        env=loader.loader_env(home),
        capture_output=True,
        check=True,
    )
    answers = dict(zip(asked, done.stdout.splitlines(), strict=True))

    def of(case: str) -> tuple[Host, ...]:
        if case in refused:
            raise refused[case]
        return loader.parse_hosts(answers[case])

    return of


def test_every_case_is_judged() -> None:
    assert sorted(EVERY) == sorted(directory.name for directory in CASES.iterdir())


@pytest.mark.parametrize("case", ACCEPTED)
def test_an_accepted_inventory_dials_what_ansible_gave_to_ssh(case: str, hosts: Any) -> None:
    expected = json.loads((CASES / case / "expected.json").read_text())["hosts"]
    found = {host.name: host for host in hosts(case)}
    assert len(found) == len(hosts(case))
    assert found.keys() == expected.keys()
    for name, truth in expected.items():
        host = found[name]
        if truth["via"] == "ssh":
            assert host.over_ssh
            assert host.address == canonical(truth["ssh_destination"])
            assert str(host.port) == truth["ssh_port"].removesuffix(" (default)")
            assert host.user == truth["ssh_user"]
            assert host.proxy == truth.get("proxy")


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_inventory_is_refused_naming_every_offender(case: str, hosts: Any) -> None:
    with pytest.raises(WrongUsage) as refusal:
        hosts(case)
    said = f"{refusal.value.what} {refusal.value.hint}"
    assert [fragment for fragment in REFUSED[case] if fragment not in said] == []


@pytest.mark.parametrize("case", HOSTLESS)
def test_outputs_without_hosts_make_a_valid_hostless_inventory(case: str, hosts: Any) -> None:
    assert hosts(case) == ()
    assert shape.compose(outputs(case)).keys() == {"all"}


@pytest.mark.parametrize("case", MAPPED)
def test_a_terraform_case_names_its_hosts(case: str, hosts: Any) -> None:
    assert [(host.name, host.address, host.port) for host in hosts(case)] == MAPPED[case]


def test_ports_that_ansible_reads_are_not_among_the_refused(hosts: Any) -> None:
    with pytest.raises(WrongUsage) as refusal:
        hosts("inv-11-bad-ports")
    assert "pfloat" not in refusal.value.what
    assert "pspace" not in refusal.value.what


def test_only_ssh_connections_are_waited_for(hosts: Any) -> None:
    connections = {host.name: (host.connection, host.over_ssh) for host in hosts("inv-23-nonssh")}
    assert connections == {
        "box1": ("community.docker.docker", False),
        "box2": ("docker", False),
        "win1": ("winrm", False),
        "sw1": ("ansible.netcommon.network_cli", False),
        "ctl": ("local", False),
        "ctl2": ("local", False),
        "s1": ("ssh", True),
        "s2": ("smart", True),
        "s3": ("paramiko", True),
    }


def canonical(destination: str) -> str:
    try:
        return str(ipaddress.ip_address(destination))
    except ValueError:
        return destination
