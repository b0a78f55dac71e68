"""Output values as ansible takes them literally, and the variable names that outputs get."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable
from typing import Any

from exocomp.errors import WrongUsage

UNSAFE = "__ansible_unsafe"
# ansible's JSON decoder acts on such keys at any depth, and falls back to (templated) YAML when one does not fit.
_MARK = "__ansible_"
_DEPTH = 64

# Names that ansible or Jinja fill themselves (constants.INTERNAL_STATIC_VARS, and seen: environment, vars, self).
_MAGIC = frozenset(
    (
        "environment",
        "group_names",
        "groups",
        "hostvars",
        "inventory_dir",
        "inventory_file",
        "inventory_hostname",
        "inventory_hostname_short",
        "play_hosts",
        "playbook_dir",
        "role_name",
        "role_names",
        "role_path",
        "role_uuid",
        "self",
        "vars",
    )
)
# Globals of ansible's Jinja environment, which a variable of that name would hide from every template.
_GLOBALS = frozenset(
    (
        "cycler",
        "dict",
        "finalize",
        "joiner",
        "lipsum",
        "lookup",
        "namespace",
        "now",
        "omit",
        "q",
        "query",
        "range",
        "undef",
    )
)
# Jinja's own constants; its other words are Python keywords.
_CONSTANTS = frozenset(("true", "false", "none"))


def literal(value: Any, path: str, depth: int = 0) -> Any:
    """`value` with every string, at any depth, marked so that ansible never evaluates it as a template.

    Only strings can carry the mark (ansible's legacy JSON profile); numbers, booleans and null stay as they are.
    A value that is already marked stays marked. Raises WrongUsage naming `path` for a key that ansible would act on.
    """
    if isinstance(value, str):
        return {UNSAFE: value}
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise WrongUsage(f"{path} is {value}, which JSON cannot hold")
        return value
    if depth > _DEPTH:
        raise WrongUsage(f"{path} is nested more than {_DEPTH} levels deep")
    if isinstance(value, list | tuple):
        return [literal(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, dict):
        if value.keys() == {UNSAFE} and isinstance(value[UNSAFE], str):
            return value
        check_keys(value, path)
        return {key: literal(item, f"{path}.{key}", depth + 1) for key, item in value.items()}
    raise WrongUsage(f"{path} is a {type(value).__name__}, which JSON cannot hold")


def check_keys(mapping: dict[Any, Any], path: str) -> None:
    """Raises WrongUsage for a key that is no string, or one that ansible's JSON decoder would act on."""
    for key in mapping:
        if not isinstance(key, str):
            raise WrongUsage(f"{path} has the key {key!r}, which is not a string")
        if key.startswith(_MARK):
            raise WrongUsage(f"{path} has the key {key!r}, which ansible reserves", hint="use another name")


def variable_names(outputs: Iterable[str]) -> dict[str, str]:
    """Which group variable each output becomes when there is no `ansible_inventory` output.

    A name that ansible takes as it is stays; `-` becomes `_`, other characters `u` and their code point in hex.
    Connection variables (`ansible_*`), magic variables, Jinja globals and keywords, and names that are taken
    already get the prefix `tf_`. Raises WrongUsage when even that name is taken.
    """
    names = list(outputs)
    plain = {name: name for name in names if _usable(name)}
    taken = set(plain.values())
    for name in names:
        if name in plain:
            continue
        wanted = re.sub(r"[^A-Za-z0-9_]", _spelled, name)
        if not _usable(wanted) or wanted in taken:
            wanted = f"tf_{wanted}"
        if wanted in taken:
            raise WrongUsage(
                f"output {name!r} would become the variable {wanted}, as another output does already",
                hint="rename one of the two outputs",
            )
        taken.add(wanted)
        plain[name] = wanted
    return {name: plain[name] for name in names}


def _usable(name: str) -> bool:
    reserved = name in _MAGIC or name in _GLOBALS or name in _CONSTANTS or keyword.iskeyword(name)
    own = name.startswith(("ansible_", _MARK))
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None and not reserved and not own


def _spelled(match: re.Match[str]) -> str:
    return "_" if match[0] == "-" else f"u{ord(match[0]):x}"
