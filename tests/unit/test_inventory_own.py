"""Inventory files of the operator's own: what is kept of them, what is refused, what ansible makes of the rest."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from exocomp.actors.loading import OwnFiles
from exocomp.config import Layout
from exocomp.errors import WrongUsage
from exocomp.inventory import generations, own
from exocomp.protocol.commands import AddInventory

YAML = """# the machines in the cellar
all:
  vars:
    greeting: "{{ inventory_hostname }} says hello"
  children:
    web:
      hosts:
        web[1:2]:
          ansible_user: deploy
        gate:
          ansible_host: 192.0.2.9
          ansible_port: 2222
          token: !vault |
            $ANSIBLE_VAULT;1.1;AES256
            6162
"""
INI = """; the machines in the cellar
web2 ansible_host=192.0.2.2 ansible_port=2222
web1 ansible_host=192.0.2.1
[db]
db[1:2]
[db:vars]
ansible_user = dba
"""


def write(at: Path, text: str | bytes, name: str = "hosts.yml") -> Path:
    file = at / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


# Reading


def test_the_text_is_read_as_it_is(tmp_path: Path) -> None:
    assert own.read(write(tmp_path, YAML)) == YAML.encode()


def test_what_is_missing_or_a_directory_is_refused_by_name(tmp_path: Path) -> None:
    for file, said in ((tmp_path / "none.yml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(WrongUsage, match=f"inventory file {file}: {said}"):
            own.read(file)


def test_what_is_no_regular_file_is_refused() -> None:
    with pytest.raises(WrongUsage):
        own.read(Path(os.devnull))


def test_a_file_that_is_larger_than_any_inventory_is_not_read(tmp_path: Path) -> None:
    file = write(tmp_path, "")
    os.truncate(file, own.LARGEST + 1)  # a hole: none of it lies on the disk
    with pytest.raises(WrongUsage, match="larger than 16 MiB"):
        own.read(file)
    os.truncate(file, own.LARGEST)
    assert len(own.read(file)) == own.LARGEST


def test_a_script_is_refused_with_the_command_that_makes_a_file_of_it(tmp_path: Path) -> None:
    file = write(tmp_path, "#!/bin/sh\necho '{}'\n", "dynamic")
    file.chmod(0o755)
    with pytest.raises(WrongUsage, match="is an inventory script") as refusal:
        own.read(file)
    assert f"ansible-inventory -i {file} --list --yaml" in refusal.value.hint
    file.chmod(0o644)
    assert own.read(file).startswith(b"#!")


def test_what_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="is not UTF-8 text"):
        own.read(write(tmp_path, b"all: {hosts: {caf\xe9: }}\n"))


# YAML, JSON or INI


@pytest.mark.parametrize("name", ["hosts", "hosts.yml", "hosts.yaml", "hosts.json", "hosts.ini"])
def test_a_map_is_a_map_whatever_the_file_is_called(name: str) -> None:
    for text in (b"all: {hosts: {web1: null}}\n", b'{"all": {"hosts": {"web1": null}}}'):
        assert own.as_map(text, Path(name)) == {"all": {"hosts": {"web1": None}}}


@pytest.mark.parametrize("text", [INI, "web1\nweb2\n", "[web]\nweb1\n", "[web]\nweb[1:9] a=b\n", "# none\nweb1\n"])
def test_what_is_no_map_is_left_to_ansibles_ini_reader_unless_the_name_says_otherwise(text: str) -> None:
    for name in ("hosts", "hosts.ini", "hosts.txt"):
        assert own.as_map(text.encode(), Path(name)) is None
    for name in ("hosts.yml", "hosts.json"):
        with pytest.raises(WrongUsage, match=r"is not YAML|not a map of groups"):
            own.check(own.as_map(text.encode(), Path(name)), text.encode(), Path(name))


def test_broken_json_is_not_taken_for_ini_whose_reader_would_make_a_host_of_its_brace() -> None:
    for text in (b'[{"all": {}}]', b'  [{"a": 1}]'):
        content = own.as_map(text, Path("hosts"))
        assert content is not None
        with pytest.raises(WrongUsage, match="is a list, not a map of groups"):
            own.check(content, text, Path("hosts"))


@pytest.mark.parametrize(
    "text",
    [
        "all: {hosts: [}\n",
        "a: b\n: c\n",
        "all: *nobody\n",
        "x: !!python/object:os.system {}\n",
        "a: {}\n---\nb: {}\n",
    ],
)
def test_broken_yaml_is_refused_in_one_line_and_nothing_in_it_is_constructed(text: str) -> None:
    with pytest.raises(WrongUsage, match=r"hosts\.yml is not YAML") as refusal:
        own.as_map(text.encode(), Path("hosts.yml"))
    assert "\n" not in refusal.value.what


def test_nesting_without_end_is_refused_and_does_not_end_the_daemon() -> None:
    with pytest.raises(WrongUsage, match="is not YAML"):
        own.as_map(b"[" * 20_000, Path("hosts.yml"))


def test_an_empty_file_is_an_inventory_of_nobody() -> None:
    for text in (b"", b"\n  \n"):
        for name in ("hosts", "hosts.yml"):
            content = own.as_map(text, Path(name))
            assert content == {}
            assert own.check(content, text, Path(name)) == ({"all": {"vars": {}}}, "")


# What is kept


def test_a_map_is_kept_as_its_text_with_comments_templates_and_secrets(tmp_path: Path) -> None:
    text = YAML.encode()
    assert own.check(own.as_map(text, tmp_path / "hosts.yml"), text, tmp_path / "hosts.yml") == (text, "")


def test_a_map_that_was_read_by_ansible_is_kept_as_a_map(tmp_path: Path) -> None:
    content = {"all": {"hosts": {"web1": {"ansible_host": "192.0.2.1"}}}}
    assert own.check(content, None, tmp_path / "hosts") == (content, "")


@pytest.mark.parametrize("name", ["group_vars", "host_vars"])
def test_variables_beside_the_file_are_said_not_to_come_along(tmp_path: Path, name: str) -> None:
    text = b"all: {hosts: {web1: null}}\n"
    content = own.as_map(text, tmp_path / "hosts.yml")
    (tmp_path / name).write_text("a file of this name is nothing to ansible")
    assert own.check(content, text, tmp_path / "hosts.yml")[1] == ""
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    kept, told = own.check(content, text, tmp_path / "hosts.yml")
    assert kept == text
    assert told == f"; {name} beside it not taken: they belong beside the playbook"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (["web1"], "hosts.yml is a list, not a map of groups"),
        ("web1", "hosts.yml is a string, not a map of groups"),
        ({"_meta": {"hostvars": {}}}, "hosts.yml._meta is the form that an inventory script prints"),
        ({"plugin": "amazon.aws.aws_ec2"}, "hosts.yml.plugin makes ansible read a plugin's configuration"),
        ({"all": {"host": {}}}, "hosts.yml.all.host is not hosts, vars or children"),
        ({"all": {"hosts": ["web1"]}}, "hosts.yml.all.hosts is a list, not a map"),
        ({"all": {"hosts": {"web1": "192.0.2.1"}}}, "hosts.yml.all.hosts.web1 is a string, not a host"),
        ({"all": {"hosts": {1: None}}}, "which is not a string"),
        ({"a": {"children": {"b": {"children": {"a": None}}}}}, "a group that contains itself"),
        ({"all": {"hosts": {"web[9:1]": None}}}, "is a range that runs backwards"),
        ({"all": {"hosts": {"web[1:99999]": None}}}, "is a range of more than 10000 hosts"),
    ],
)
def test_what_is_no_map_of_groups_is_refused_naming_the_place_in_the_file(content: Any, said: str) -> None:
    with pytest.raises(WrongUsage) as refusal:
        own.check(content, b"", Path("/srv/hosts.yml"))
    assert said in refusal.value.what


@pytest.mark.parametrize(
    "text",
    [
        b"all: &all\n  children:\n    web: *all\n",
        b"all:\n  vars:\n    a0: &a0 [x, x]\n"
        + b"".join(b"    a%d: &a%d [*a%d, *a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 40)),
    ],
    ids=["itself", "a bomb"],
)
def test_aliases_that_hold_one_another_are_refused(text: bytes) -> None:
    with pytest.raises(WrongUsage, match="aliases"):
        own.check(own.as_map(text, Path("hosts.yml")), text, Path("hosts.yml"))


# Taken, with ansible's own loader


async def take(root: Path, file: Path, name: str = "dc1") -> Any:
    return await OwnFiles(Layout(root / "d")).take(AddInventory(name=name, file=str(file)))


async def test_a_yaml_file_becomes_a_generation_byte_for_byte_and_its_hosts_are_those_that_ansible_dials(
    tmp_path: Path,
) -> None:
    taken = await take(tmp_path, write(tmp_path, YAML))
    got = taken.captured
    assert Path(got.path).read_text() == YAML
    assert Path(got.path).parent == generations.generations_path(Layout(tmp_path / "d"), "dc1")
    assert (Path(got.path).stat().st_mode & 0o777) == 0o600
    assert [(host.name, host.address, host.port, host.user) for host in got.hosts] == [
        ("web1", "web1", 22, "deploy"),
        ("web2", "web2", 22, "deploy"),
        ("gate", "192.0.2.9", 2222, None),
    ]
    assert (got.inventory, taken.told) == ("dc1", "")


async def test_an_ini_file_becomes_a_map_that_ansible_reads_alike(tmp_path: Path) -> None:
    got = (await take(tmp_path, write(tmp_path, INI, "hosts"))).captured
    assert [(host.name, host.address, host.port, host.user) for host in got.hosts] == [
        ("web2", "192.0.2.2", 2222, None),
        ("web1", "192.0.2.1", 22, None),
        ("db1", "db1", 22, "dba"),
        ("db2", "db2", 22, "dba"),
    ]
    kept = json.loads(Path(got.path).read_text())
    assert "db" in json.dumps(kept)
    again = (await take(tmp_path, write(tmp_path, json.dumps(kept), "again.json"))).captured
    assert again.hosts == got.hosts


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("hosts", "[web\nweb1\n", "is no inventory that ansible reads"),
        ("hosts.yml", "all: {hosts: {web1: {ansible_port: many}}}\n", "hosts.yml"),
    ],
)
async def test_what_ansible_cannot_read_is_refused_and_names_the_operators_own_file(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    file = write(tmp_path, text, name)
    with pytest.raises(WrongUsage) as refusal:
        await take(tmp_path, file)
    assert said in refusal.value.what
    assert str(file) in refusal.value.what
    assert str(tmp_path / "d") not in f"{refusal.value.what} {refusal.value.hint}"


@pytest.mark.parametrize("name", ["tf:edge", "", "../dc1", "a b", ".dc1", "x" * 65, "dc1/x"])
async def test_a_name_that_is_none_or_a_workspaces_is_refused_before_the_file_is_read(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(WrongUsage, match="belongs to a workspace" if name.startswith("tf:") else "is not usable"):
        await take(tmp_path, tmp_path / "none.yml", name)
    assert not (tmp_path / "d").exists()


async def test_a_path_that_is_the_commands_own_affair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match=r"inventory file hosts\.yml is not an absolute path"):
        await take(tmp_path, Path("hosts.yml"))
