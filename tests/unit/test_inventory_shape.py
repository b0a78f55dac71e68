"""Outputs to inventory: what is kept, what is marked literal, what is refused and in which words."""

import json
import subprocess
import sys
from typing import Any

import pytest

from exocomp.errors import WrongUsage
from exocomp.inventory import shape
from exocomp.inventory.literal import variable_names
from exocomp.model import Output

SECRET = "hunter2-s3cr3t"


def compose(inventory: Any, *, sensitive: bool = False) -> dict[str, Any]:
    return shape.compose({"ansible_inventory": Output(value=inventory, sensitive=sensitive)})


def unsafe(text: str) -> dict[str, str]:
    return {"__ansible_unsafe": text}


def web(host: Any) -> dict[str, Any]:
    return {"all": {"children": {"web": {"hosts": {"web1": host}}}}}


REFUSED: dict[str, tuple[Any, str, str]] = {
    "json string": ('{"all": {}}', "ansible_inventory is a string", "drop jsonencode()"),
    "number": (5, "ansible_inventory is a number, not a map", "all ="),
    "list": ([{"name": "web1"}], "ansible_inventory is a list", "all ="),
    "script form": ({"web": ["a"], "_meta": {"hostvars": {}}}, "ansible_inventory._meta", "no _meta"),
    "list as group": ({"web": ["192.0.2.1"]}, 'ansible_inventory.web is a list, not a group: ["192.0.2.1"]', "hosts"),
    "string as group": ({"web": "192.0.2.1"}, "ansible_inventory.web is a string", "hosts"),
    "group without children": ({"all": {"web": {"hosts": {}}}}, "ansible_inventory.all.web is not", "below children"),
    "host in a group": ({"web": {"web1": {"ansible_host": "x"}}}, "ansible_inventory.web.web1 is not", "children"),
    "misspelt key": ({"all": {"host": {"web1": {}}}}, "ansible_inventory.all.host is not hosts", "children"),
    "list of hosts": ({"all": {"hosts": ["web1"]}}, "ansible_inventory.all.hosts is a list", "hosts is a map"),
    "string of hosts": ({"all": {"hosts": "web1"}}, "ansible_inventory.all.hosts is a string", "hosts is a map"),
    "list of vars": ({"all": {"vars": ["a=b"]}}, "ansible_inventory.all.vars is a list", "vars is a map"),
    "list of children": ({"all": {"children": ["web"]}}, "ansible_inventory.all.children is a list", "is a map"),
    "address as host": (
        web("192.0.2.1"),
        'children.web.hosts.web1 is a string, not a host: "192.0.2.1"',
        "ansible_host",
    ),
    "number as host": (web(22), "web1 is a number", "ansible_host"),
    "empty host name": ({"all": {"hosts": {"": {}}}}, "empty host name", "name"),
    "empty group name": ({"": {"hosts": {}}}, "no name for a group", "letters"),
    "brace group name": ({"{{ x }}": None}, "no name for a group", "letters"),
    "own child": ({"a": {"children": {"a": None}}}, "contains itself: a > a", "break"),
    "cycle": (
        {"a": {"children": {"b": {"children": {"c": None}}}}, "c": {"children": {"a": None}}},
        "contains itself: a > b > c > a",
        "break",
    ),
    "all below a group": ({"a": {"children": {"all": {"hosts": {}}}}}, "the group all below a", "already"),
    "group named plugin": ({"plugin": {"hosts": {"a": {}}}}, "ansible_inventory.plugin", "all.children"),
    "huge range": ({"all": {"hosts": {"web[0:9999][0:9999]": {}}}}, "a range of more than 10000", "fewer"),
    "open range": ({"all": {"hosts": {"web[:99999999]": {}}}}, "a range of more than 10000", "fewer"),
    "backward range": ({"all": {"hosts": {"web[03:01]": {}}}}, "a range that runs backwards", "[first:last]"),
    "template in a connection variable": (
        web({"ansible_host": "{{ lookup('pipe', 'id') }}"}),
        "web1.ansible_host is a template",
        "never evaluated",
    ),
    "marked template in a connection variable": (
        web({"ansible_host": unsafe("{{ x }}")}),
        "web1.ansible_host is a template",
        "never evaluated",
    ),
    "reserved key": (web({"tag": {"__ansible_vault": "x"}}), "'__ansible_vault', which ansible reserves", "name"),
    "mark on a number": (web({"tag": {"__ansible_unsafe": 5}}), "'__ansible_unsafe'", "name"),
    "mark among others": (web({"tag": {"__ansible_unsafe": "x", "y": 1}}), "'__ansible_unsafe'", "name"),
    "reserved host": ({"all": {"hosts": {"__ansible_unsafe": None}}}, "'__ansible_unsafe'", "name"),
    "not a number": (web({"x": float("nan")}), "web1.x is nan", ""),
    "half a surrogate": (web({"x": "\ud800"}), "surrogate", ""),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_wrong_shape_is_refused_naming_path_and_remedy(kind: str) -> None:
    value, what, hint = REFUSED[kind]
    with pytest.raises(WrongUsage) as refusal:
        compose(value)
    assert what in refusal.value.what
    assert hint in refusal.value.hint


def test_groups_nested_past_any_use_are_refused() -> None:
    group: Any = {}
    for number in range(20_000):
        group = {"children": {f"g{number}": group}}
    with pytest.raises(WrongUsage, match="nested too deeply"):
        compose({"all": group})


def test_a_value_nested_past_any_use_is_refused() -> None:
    value: Any = []
    for _ in range(20_000):
        value = [value]
    with pytest.raises(WrongUsage, match="nested more than 64 levels"):
        compose(web({"x": value}))


@pytest.mark.parametrize("empty", [{}, {"all": {"vars": {}}}])
def test_an_inventory_without_groups_is_never_an_empty_map(empty: Any) -> None:
    assert compose(empty) == {"all": {"vars": {}}}


@pytest.mark.parametrize("group", [None, {}, {"hosts": None}, {"hosts": {}}, {"vars": None, "children": None}])
def test_null_and_empty_parts_are_kept(group: Any) -> None:
    assert compose({"all": {"children": {"web": group}}}) == {"all": {"children": {"web": group}}}


def test_every_string_is_marked_and_everything_else_is_not() -> None:
    given = {
        "s": "x",
        "i": 12345678901234567890123,
        "f": 0.1,
        "b": True,
        "n": None,
        "l": ["y", {"k": "z", "{{ k }}": 1}],
    }
    assert compose(web(given))["all"]["children"]["web"]["hosts"]["web1"] == {
        "s": unsafe("x"),
        "i": 12345678901234567890123,
        "f": 0.1,
        "b": True,
        "n": None,
        "l": [unsafe("y"), {"k": unsafe("z"), "{{ k }}": 1}],
    }


def test_a_value_that_the_author_marked_stays_as_it_is() -> None:
    assert compose(web({"x": unsafe("y")})) == web({"x": unsafe("y")})


def test_order_of_groups_and_hosts_is_kept() -> None:
    given = {"z": {"hosts": {"b": None, "a": None}}, "y": {"hosts": {"d": None, "c": None}}}
    assert json.dumps(compose(given)) == json.dumps(given)


@pytest.mark.parametrize(
    "inventory",
    [
        SECRET,
        [SECRET],
        {"web": SECRET},
        {"web": {"hosts": [SECRET]}},
        web(SECRET),
        web({"ansible_password": "{{" + SECRET + "}}"}),
        {"web": {"hsots": {"web1": {"password": SECRET}}}},
        {"_meta": {"hostvars": {"a": SECRET}}},
    ],
)
def test_an_error_about_a_sensitive_inventory_quotes_no_value(inventory: Any) -> None:
    with pytest.raises(WrongUsage) as refusal:
        compose(inventory, sensitive=True)
    assert SECRET not in refusal.value.what + refusal.value.hint


def test_a_sensitive_inventory_is_used_as_the_inventory() -> None:
    assert compose(web({"ansible_password": SECRET}), sensitive=True) == web({"ansible_password": unsafe(SECRET)})


def test_without_an_inventory_every_public_output_becomes_a_variable_of_a_hostless_group() -> None:
    outputs = {
        "ansible_inventory": Output(value=None),
        "db_password": Output(value=SECRET, sensitive=True),
        "my-output": Output(value=1),
        "tags": Output(value=["{{ 7*7 }}"]),
    }
    assert shape.compose(outputs) == {"all": {"vars": {"my_output": 1, "tags": [unsafe("{{ 7*7 }}")]}}}


def test_no_outputs_make_a_hostless_inventory() -> None:
    assert shape.compose({}) == {"all": {"vars": {}}}


def test_names_that_ansible_or_jinja_own_get_a_prefix() -> None:
    given = [
        "region",
        "hosts",
        "my-name",
        "my_name",
        "ansible_connection",
        "environment",
        "groups",
        "lookup",
        "größe",
        "for",
    ]
    assert variable_names(given) == {
        "region": "region",
        "hosts": "hosts",
        "my-name": "tf_my_name",
        "my_name": "my_name",
        "ansible_connection": "tf_ansible_connection",
        "environment": "tf_environment",
        "groups": "tf_groups",
        "lookup": "tf_lookup",
        "größe": "gruf6udfe",
        "for": "tf_for",
    }


def test_two_outputs_never_share_a_variable() -> None:
    with pytest.raises(WrongUsage, match="tf_my_x"):
        variable_names(["my-x", "my_x", "tf_my_x"])


def test_the_names_that_ansible_owns_are_known() -> None:
    script = """
from ansible import constants
from ansible.template import Templar
import json
templar = Templar(loader=None)
print(json.dumps([*constants.INTERNAL_STATIC_VARS, *templar.environment.globals]))
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, check=True)
    owned = json.loads(done.stdout)
    assert [name for name, variable in variable_names(owned).items() if variable == name] == []
