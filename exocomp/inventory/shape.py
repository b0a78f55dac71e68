"""Outputs of a workspace become a static inventory, judged by shape before anything is written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from exocomp.errors import WrongUsage
from exocomp.inventory.literal import UNSAFE, check_keys, literal, variable_names
from exocomp.model import Output

OUTPUT = "ansible_inventory"
_KEYS = ("hosts", "vars", "children")
_TEMPLATE = re.compile(r"\{\{.*\}\}|\{%.*%\}", re.DOTALL)
_RANGE = re.compile(r"\[(\d*):(\d+)(?::\d+)?\]", re.ASCII)
_MOST_HOSTS = 10_000
_EXAMPLE_YAML = "write all: {children: {web: {hosts: {web1: {ansible_host: 192.0.2.1}}}}}"
_EXAMPLE = 'write { all = { children = { web = { hosts = { web1 = { ansible_host = "192.0.2.1" } } } } } }'


def compose(outputs: Mapping[str, Output]) -> dict[str, Any]:
    """The static inventory, as ansible's `yaml` plugin reads it from a JSON file.

    With an `ansible_inventory` output that output is the inventory: a map of groups, a group a map of `hosts`,
    `vars` and `children` (each a map or null) or null, a host a map of variables or null. Order is kept. Without
    one, every output that is not sensitive becomes a variable of the hostless group `all` (see variable_names).

    Every string value is marked as literal: templates in outputs are never evaluated, because cloud tags and
    host names are not the author's words. A template in an `ansible_*` variable is therefore refused.

    A sensitive `ansible_inventory` is used like any other. Names of groups, hosts and variables, and the address,
    port and user of a host that is accepted, appear in events as ever; no value appears in an error.

    Raises WrongUsage naming path and value of the first thing that does not fit.
    """
    given = outputs.get(OUTPUT)
    content = _group_vars(outputs) if given is None or given.value is None else _inventory(given)
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise WrongUsage("an output holds half of a surrogate pair, which is not Unicode text") from None
    return content


def check(content: Any, source: str) -> dict[str, Any]:
    """The inventory that a person's own file holds, by the same rules of shape; its values may be templates.

    Raises WrongUsage naming path and value of the first thing that does not fit; `source` names the file.
    """
    return _Shape(_shown, source, _EXAMPLE_YAML, is_own=True).inventory(content)


def _inventory(given: Output) -> dict[str, Any]:
    try:
        return _Shape(_hidden if given.sensitive else _shown).inventory(given.value)
    except RecursionError:
        raise WrongUsage(f"{OUTPUT} is nested too deeply", hint=_EXAMPLE) from None


def _group_vars(outputs: Mapping[str, Output]) -> dict[str, Any]:
    public = {name: out.value for name, out in outputs.items() if not out.sensitive and name != OUTPUT}
    names = variable_names(public)
    return {"all": {"vars": {names[name]: literal(value, f"output {name}") for name, value in public.items()}}}


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _hidden(value: Any) -> str:
    return "a sensitive value"


class _Shape:
    """One walk over one inventory; `show` words a value, or hides it."""

    def __init__(
        self, show: Callable[[Any], str], source: str = OUTPUT, example: str = _EXAMPLE, *, is_own: bool = False
    ) -> None:
        self._show = show
        self._source = source
        self._example = example
        self._is_own = is_own
        self._children: dict[str, set[str]] = {}

    def inventory(self, value: Any) -> dict[str, Any]:
        if isinstance(value, str) and not self._is_own:
            self._refuse(self._source, value, "is a string", "drop jsonencode() or yamlencode() around the output")
        if not isinstance(value, dict):
            self._refuse(self._source, value, f"is {_kind(value)}, not a map of groups", self._example)
        if "_meta" in value:
            hint = f"a static inventory has no _meta; {self._example}"
            self._refuse(f"{self._source}._meta", value["_meta"], "is the form that an inventory script prints", hint)
        if value.get("plugin"):
            hint = "put the group under all.children"
            self._refuse(
                f"{self._source}.plugin", value["plugin"], "makes ansible read a plugin's configuration", hint
            )
        groups = self._groups(value, self._source)
        self._no_cycles()
        # ansible takes an empty map for no inventory at all, and would invent a host from its text.
        return groups or {"all": {"vars": {}}}

    def _groups(self, groups: dict[Any, Any], path: str) -> dict[str, Any]:
        check_keys(groups, path)
        return {name: self._group(name, group, f"{path}.{name}") for name, group in groups.items()}

    def _group(self, name: str, group: Any, path: str) -> dict[str, Any] | None:
        if not name.strip() or "{" in name or "\n" in name:
            self._refuse(path, name, "is no name for a group", "use letters, digits and _")
        self._children.setdefault(name, set())
        if group is None:
            return None
        if not isinstance(group, dict):
            hint = f"a group is a map of hosts, vars and children: {self._example}"
            self._refuse(path, group, f"is {_kind(group)}, not a group", hint)
        return {key: self._section(name, key, section, f"{path}.{key}") for key, section in group.items()}

    def _section(self, group: str, key: str, section: Any, path: str) -> dict[str, Any] | None:
        if key not in _KEYS:
            self._refuse(
                path, section, "is not hosts, vars or children", f"a group stands below children: {self._example}"
            )
        if section is None:
            return None
        if not isinstance(section, dict):
            hint = f"{key} is a map" + (
                ', such as { web1 = { ansible_host = "192.0.2.1" } }' if key == "hosts" else ""
            )
            self._refuse(path, section, f"is {_kind(section)}, not a map", hint)
        if key == "vars":
            return self._vars(section, path)
        if key == "hosts":
            return self._hosts(section, path)
        self._children[group].update(section)
        return self._groups(section, path)

    def _hosts(self, hosts: dict[Any, Any], path: str) -> dict[str, Any]:
        check_keys(hosts, path)
        for name, host in hosts.items():
            if not name.strip():
                self._refuse(f"{path}.{name}", name, "is an empty host name", "name the host")
            if host is not None and not isinstance(host, dict):
                hint = 'a host is a map of variables, such as { ansible_host = "192.0.2.1" }, or null'
                self._refuse(f"{path}.{name}", host, f"is {_kind(host)}, not a host", hint)
            widths = [int(last) - int(first or 0) + 1 for first, last in _RANGE.findall(name)]
            # ansible takes a range that runs backwards for no host at all, without a word.
            if min(widths, default=1) < 1:
                self._refuse(f"{path}.{name}", name, "is a range that runs backwards", "write [first:last]")
            if math.prod(widths) > _MOST_HOSTS:
                self._refuse(f"{path}.{name}", name, f"is a range of more than {_MOST_HOSTS} hosts", "name fewer")
        return {name: host and self._vars(host, f"{path}.{name}") for name, host in hosts.items()}

    def _vars(self, variables: dict[Any, Any], path: str) -> dict[str, Any]:
        check_keys(variables, path)
        if self._is_own:
            return variables
        for name, value in variables.items():
            text = value.get(UNSAFE) if isinstance(value, dict) else value
            if name.startswith("ansible_") and isinstance(text, str) and _TEMPLATE.search(text):
                hint = (
                    "templates in outputs are never evaluated: compute the value in Terraform, or set it in the play"
                )
                self._refuse(f"{path}.{name}", text, "is a template", hint)
        return {name: literal(value, f"{path}.{name}") for name, value in variables.items()}

    def _no_cycles(self) -> None:
        done: set[str] = set()
        for start in self._children:
            self._descend(start, (), done)

    def _descend(self, group: str, above: tuple[str, ...], done: set[str]) -> None:
        if group in above:
            loop = " > ".join((*above[above.index(group) :], group))
            raise WrongUsage(
                f"{self._source} has a group that contains itself: {loop}", hint="break the loop of children"
            )
        if group == "all" and above:
            raise WrongUsage(
                f"{self._source} has the group all below {above[-1]}", hint="all contains every group already"
            )
        if group not in done:
            for child in self._children[group]:
                self._descend(child, (*above, group), done)
            done.add(group)

    def _refuse(self, path: str, value: Any, what: str, hint: str) -> None:
        raise WrongUsage(f"{path} {what}: {self._show(value)}", hint=hint)


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number", dict: "a map"}
    return names.get(type(value), f"a {type(value).__name__}")
