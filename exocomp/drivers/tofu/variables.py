"""A workspace's variables as private files of the attempt, so that no value stands in an argv."""

from __future__ import annotations

import os
from pathlib import Path

from exocomp.drivers.tofu import hcl
from exocomp.errors import WrongUsage
from exocomp.model import Workspace

PREFIX = "vars-"
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def write_variables(workspace: Workspace, module: hcl.Module, attempt: Path) -> tuple[str, ...]:
    """Copies of the variable files, then one of the single variables, which win; returns the flags for them.

    Raises WrongUsage for a file that can't be read any more.
    """
    written = []
    for number, name in enumerate(workspace.var_files):
        try:
            content = Path(name).read_bytes()
        except OSError as error:
            raise WrongUsage(
                f"variable file {name}: {error.strerror}", hint="put it back, or add the workspace anew"
            ) from None
        written.append(_write(attempt / f"{PREFIX}{number}-{os.path.basename(name)}", content))
    if workspace.variables:
        lines = [f"{name} = {_value(value, module.variables[name])}\n" for name, value in workspace.variables.items()]
        written.append(_write(attempt / f"{PREFIX}flags.tfvars", "".join(lines).encode()))
    return tuple(f"-var-file={path}" for path in written)


def _value(value: str, variable: hcl.Variable) -> str:
    """As the engines take the value of -var: a literal for primitive types, else an expression."""
    return quote(value) if variable.literal else f"(\n{value}\n)"


def quote(text: str) -> str:
    """An HCL string that stands for exactly this text."""
    escaped = "".join(_ESCAPES.get(char, char if char >= " " else f"\\u{ord(char):04x}") for char in text)
    return '"' + escaped.replace("${", "$${").replace("%{", "%%{") + '"'


def _write(path: Path, content: bytes) -> str:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as out:
        out.write(content)
    return str(path)
