"""Workspaces at the door: what is checked before one is registered, and the state file that comes with it."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import msgspec

from exocomp import staging
from exocomp.config import Layout
from exocomp.drivers.tofu import engine, hcl, state, working_copy
from exocomp.drivers.tofu.files import make_private, write_private
from exocomp.errors import Conflict, WrongUsage
from exocomp.model import Workspace

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_VARIABLE = re.compile(r"[^\W\d][\w-]*")


def check(workspace: Workspace) -> Workspace:
    """The workspace as it may be registered: paths absolute and real, the root wide enough for local modules.

    An empty `root` means `default_root`. Raises WrongUsage naming what does not fit.
    """
    if not _NAME.fullmatch(workspace.name):
        raise WrongUsage(
            f"workspace name {workspace.name!r} is not lower-case letters, digits, - and _ (63 at most)",
            hint="it must begin with a letter or digit",
        )
    if workspace.engine:
        engine.find(workspace.engine)
    directory = _directory(workspace.directory, "module directory")
    if not hcl.module_files(directory):
        raise WrongUsage(f"{directory} holds no *.tf or *.tf.json file", hint="name the directory of the root module")
    root = _root(directory, workspace.root)
    checked = msgspec.structs.replace(
        workspace,
        directory=str(directory),
        root=str(root),
        var_files=tuple(_var_file(directory, name) for name in workspace.var_files),
    )
    check_variables(workspace, hcl.read_module(directory))
    working_copy.state_path(checked)
    return checked


def default_root(directory: Path) -> Path:
    """What is staged: the git checkout around the module, else the module; wider if a local module lies outside."""
    return _widened(staging.git_top(directory) or directory, directory)


def check_variables(workspace: Workspace, module: hcl.Module) -> None:
    """Raises WrongUsage for a variable that the module does not declare: the engine would only warn."""
    for name in workspace.variables:
        if not _VARIABLE.fullmatch(name):
            raise WrongUsage(f"{name!r} is not the name of a variable")
        if name not in module.variables:
            known = ", ".join(sorted(module.variables)) or "none"
            raise WrongUsage(f"the module declares no variable {name!r}", hint=f"it declares: {known}")


def has_own_state(workspace: Workspace) -> bool:
    """Whether the module directory holds local state with resources: run without it, all would be made twice."""
    return bool(_own_states(workspace))


def adopt_state(workspace: Workspace, layout: Layout) -> None:
    """Copy the module directory's local state into the working copy; nothing when there is none.

    Raises WrongUsage when there are several, Conflict when the workspace already has another state.
    """
    found = _own_states(workspace)
    if not found:
        return
    if len(found) > 1:
        names = ", ".join(str(path) for path in found)
        raise WrongUsage(f"several state files hold resources: {names}", hint="move away all but the one to adopt")
    path = working_copy.state_path(workspace)
    target = working_copy.of(workspace, layout).module / (path or state.DEFAULT)
    theirs, ours = state.read(found[0]), state.read(target)
    if ours is not None and theirs is not None and not ours.is_empty:
        if ours.lineage == theirs.lineage and ours.serial >= theirs.serial:
            return
        raise Conflict(
            f"workspace {workspace.name!r} already has a state with resources, and it is not that of {found[0]}",
            hint="add it under another name",
        )
    make_private(target.parent)
    write_private(target, found[0].read_bytes())


def resource_count(workspace: Workspace, layout: Layout) -> int | None:
    """Managed resources in the local state; None when the state is kept elsewhere or encrypted."""
    path = working_copy.of(workspace, layout).state_file()
    if path is None:
        return None
    found = state.read(path)
    return found.resources if found is not None else 0


def _own_states(workspace: Workspace) -> list[Path]:
    directory = Path(workspace.directory)
    path = working_copy.state_path(workspace)
    if path is None:
        return []
    candidates = [directory / path, *sorted(directory.glob("terraform.tfstate.d/*/terraform.tfstate"))]
    found = [(candidate, state.read(candidate)) for candidate in candidates]
    return [candidate for candidate, held in found if held is not None and not held.is_empty]


def _directory(path: str, what: str) -> Path:
    if not os.path.isabs(path):
        raise WrongUsage(f"{what} {path!r} is not an absolute path")
    if not os.path.isdir(path):
        raise WrongUsage(f"{what} {path} is not a directory", hint="the daemon must be able to read it")
    return Path(os.path.realpath(path))


def _root(directory: Path, given: str) -> Path:
    if not given:
        root = default_root(directory)
    else:
        root = _directory(given, "root")
        if not directory.is_relative_to(root):
            raise WrongUsage(f"root {root} does not contain {directory}", hint="name a directory above the module")
        root = _widened(root, directory)
    if root == root.parent:
        raise WrongUsage(f"all of / would be staged for {directory}", hint="name a smaller --root")
    return root


def _widened(root: Path, directory: Path) -> Path:
    modules = [os.path.realpath(module) for module in hcl.local_modules(directory)]
    return Path(os.path.commonpath([root, *modules]))


def _var_file(directory: Path, name: str) -> str:
    path = os.path.abspath(directory / name)
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        raise WrongUsage(f"variable file {path}: {error.strerror}") from None
    except ValueError:
        raise WrongUsage(f"variable file {path!r} is no path") from None
    if not is_file or not os.access(path, os.R_OK):
        raise WrongUsage(f"variable file {path} is not a readable regular file")
    return path
