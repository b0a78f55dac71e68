"""The script that asks ansible's own loader; it runs in a process of its own and imports nothing of exocomp.

It answers for each path among its arguments, or on its stdin, with a line: {"hosts": […]} or {"error": "…"}.
After `--limit=PATTERN` a line is {"matched": [names]}, after `--export` {"content": {…}}: the inventory as a map.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible.inventory.data import InventoryData
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import connection_loader, inventory_loader
from ansible.template import Templar
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

_SSH = ("ssh", "smart")
_PARAMIKO = ("paramiko", "paramiko_ssh")
_OF_THE_FILE = ("inventory_file", "inventory_dir")  # which ansible sets as it reads
# Names of the options in the documentation of ansible's ssh and paramiko plugins.
_OPTIONS = {
    "address": ("host", "remote_addr"),
    "port": ("port",),
    "user": ("remote_user",),
    "ssh_args": ("ssh_args",),
    "ssh_common_args": ("ssh_common_args",),
    "ssh_extra_args": ("ssh_extra_args",),
    "proxy_command": ("proxy_command",),
    "identity_file": ("private_key_file",),
}


def answer(path: str) -> dict[str, Any]:
    loader = DataLoader()
    loader.set_basedir(os.path.dirname(path))
    try:
        inventory = InventoryManager(loader=loader, sources=[path])
    except AnsibleError as error:
        return {"error": _reason(loader, path) or str(error)}
    if sys.argv[1:2] == ["--export"]:
        return {"content": _content(inventory)}
    if sys.argv[1:2] and sys.argv[1].startswith("--limit="):
        return _matched(inventory, sys.argv[1].removeprefix("--limit="))
    variables = VariableManager(loader=loader, inventory=inventory)
    HostVars(inventory, variables, loader)
    return {"hosts": [_host(host, variables.get_vars(host=host), loader) for host in inventory.get_hosts()]}


def _matched(inventory: Any, limit: str) -> dict[str, Any]:
    try:
        inventory.subset(limit)
        return {"matched": [host.name for host in inventory.get_hosts()]}
    except AnsibleError as error:
        return {"error": _first_line(error)}


def _content(inventory: Any) -> dict[str, Any]:
    """Each group once, below all; a child is named where it belongs and told where it stands."""
    hosts = {
        host.name: {name: value for name, value in host.vars.items() if name not in _OF_THE_FILE} or None
        for host in inventory.get_hosts()
    }
    groups = {
        name: {
            "hosts": {host.name: None for host in group.hosts},
            "children": {child.name: None for child in group.child_groups},
            "vars": dict(group.vars),
        }
        for name, group in inventory.groups.items()
        if name not in ("all", "ungrouped")
    }
    return {"all": {"hosts": hosts, "children": groups, "vars": dict(inventory.groups["all"].vars)}}


def _reason(loader: Any, path: str) -> str:
    """The manager only warns about why; the plugin raises it."""
    try:
        inventory_loader.get("yaml").parse(InventoryData(), loader, path)
    except AnsibleError as error:
        return str(error)
    return ""


def _host(host: Any, variables: dict[str, Any], loader: Any) -> dict[str, Any]:
    templar = Templar(loader=loader, variables=variables)
    found: dict[str, Any] = {"name": host.name, "faults": {}}
    connection = _templated(found, templar, variables, "ansible_connection") or constants.DEFAULT_TRANSPORT
    if not isinstance(connection, str):
        found["faults"]["ansible_connection"] = f"it is a {type(connection).__name__}"
    for prefix in ("ansible.builtin.", "ansible.legacy."):
        connection = str(connection).removeprefix(prefix)
    found["connection"] = connection
    keys = _templated(found, templar, variables, "exocomp_host_keys")
    found["declared_keys"] = [keys] if isinstance(keys, str) else keys or []
    if connection in _SSH + _PARAMIKO:
        _options(found, templar, variables, _plugin("ssh" if connection in _SSH else connection))
    else:
        found["address"] = _templated(found, templar, variables, "ansible_host") or host.name
        found["port"] = _templated(found, templar, variables, "ansible_port")
        found["user"] = _templated(found, templar, variables, "ansible_user")
    return found


def _templated(found: dict[str, Any], templar: Any, variables: dict[str, Any], name: str) -> Any:
    try:
        return templar.template(variables.get(name))
    except AnsibleError as error:
        found["faults"][name] = _first_line(error)
        return None


def _plugin(connection: str) -> str:
    plugin = connection_loader.get(connection, class_only=True) or connection_loader.get("ssh", class_only=True)
    return str(plugin._load_name)


def _options(found: dict[str, Any], templar: Any, variables: dict[str, Any], plugin: str) -> None:
    defined = constants.config.get_configuration_definitions("connection", plugin)
    for key, names in _OPTIONS.items():
        for option in names:
            if option in defined:
                _option(found, templar, variables, plugin, key, option, defined[option].get("vars") or ())


def _option(
    found: dict[str, Any], templar: Any, variables: dict[str, Any], plugin: str, key: str, option: str, entries: Any
) -> None:
    """Only this option's variables are templated: a broken template elsewhere is no concern of the connection."""
    given = None
    try:
        chosen = {
            name: templar.template(variables[name]) for entry in entries if (name := entry["name"]) in variables
        }
        given = next((value for value in reversed(list(chosen.values())) if value is not None), None)
        found[key] = constants.config.get_config_value(
            option, plugin_type="connection", plugin_name=plugin, variables=chosen
        )
    except AnsibleError as error:
        found["faults"][key] = _first_line(error)
    found[f"{key}_given"] = given


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def main() -> None:
    # Whatever ansible prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for line in [word for word in sys.argv[1:] if not word.startswith("--")] or sys.stdin:
        try:
            text = json.dumps(answer(line.rstrip("\n")), default=lambda value: f"<{type(value).__name__}>")
        except Exception as error:
            text = json.dumps({"error": f"{type(error).__name__}: {error}"})
        answers.write(text + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
