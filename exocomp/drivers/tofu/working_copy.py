"""The working copy: a workspace's own writable copy of its module tree, in which the engine runs and keeps state."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import msgspec

from exocomp import staging
from exocomp.config import Layout
from exocomp.drivers.tofu import hcl, state
from exocomp.drivers.tofu.files import make_private, read_record, write_record
from exocomp.errors import Conflict, WrongUsage
from exocomp.model import Workspace

LOCK_FILE = ".terraform.lock.hcl"
OF_ENGINE = ("tree", "engine", "plugins")  # what an engine writes; beside them it could pass for the daemon


class WorkingCopy(msgspec.Struct, frozen=True, kw_only=True):
    """`relative` is where the root module lies in the tree."""

    base: Path
    relative: str

    @property
    def tree(self) -> Path:
        return self.base / "tree"

    @property
    def module(self) -> Path:
        return self.tree / self.relative

    @property
    def engine_dir(self) -> Path:
        """TF_DATA_DIR: installed modules and providers, the record of the backend."""
        return self.base / "engine"

    @property
    def plugins(self) -> Path:
        """TF_PLUGIN_CACHE_DIR; its own, so that no module can put a provider into another workspace."""
        return self.base / "plugins"

    @property
    def initialised(self) -> Path:
        return self.engine_dir / "initialised.json"

    @property
    def manifest(self) -> Path:
        return self.base / "copied.json"

    def state_file(self) -> Path | None:
        """Where local state lies; None with any other backend. What the engine recorded counts, else the module."""
        record = read_record(self.engine_dir / "terraform.tfstate").get("backend")
        if record:
            kind, path = record.get("type"), (record.get("config") or {}).get("path")
        elif self.module.is_dir():
            declared = hcl.read_module(self.module)
            kind, path = declared.backend, declared.path
        else:
            kind, path = None, None
        return self.module / (path or state.DEFAULT) if kind in (None, "local") else None


def of(workspace: Workspace, layout: Layout) -> WorkingCopy:
    relative = os.path.relpath(workspace.directory, workspace.root)
    return WorkingCopy(base=layout.workspaces / workspace.name, relative=relative)


def sync(copy: WorkingCopy, workspace: Workspace, limit_bytes: int) -> staging.Survey:
    """Make the tree what the user's is. What the engine made there stays: state, lock file, files of resources.

    Raises WrongUsage or Conflict naming the path that can't be copied.
    """
    make_private(copy.tree)
    own_state = state_path(workspace)
    skip_state = os.path.normpath(os.path.join(copy.relative, own_state)) if own_state else ""

    def skip(relative: str) -> bool:
        return staging.is_skipped(relative) or relative in (skip_state, f"{skip_state}.backup")

    old = read_record(copy.manifest)
    found = staging.survey(Path(workspace.root), copy.base.parent, limit_bytes, skip)
    before: dict[str, Any] = old.get("entries", {})
    _remove(copy.tree, {path: kept for path, kept in before.items() if path not in found.entries})
    entries = {path: _put(copy.tree, path, found, before.get(path)) for path in found.entries}
    _move_state(copy, old.get("relative", copy.relative))
    write_record(copy.manifest, {"relative": copy.relative, "digest": found.digest, "entries": entries})
    return found


def state_path(workspace: Workspace) -> str | None:
    """The path of local state relative to the module, as its text declares it; None when it is kept elsewhere.

    Raises WrongUsage when a relative path leaves the root.
    """
    declared = hcl.read_module(Path(workspace.directory))
    path = declared.path or state.DEFAULT
    if declared.backend not in (None, "local") or os.path.isabs(path):
        return None
    if not Path(os.path.normpath(os.path.join(workspace.directory, path))).is_relative_to(workspace.root):
        raise WrongUsage(
            f'the path {path!r} of backend "local" leaves {workspace.root}, which is what gets staged',
            hint="make it absolute, or leave it out: the state then lies in the data dir",
        )
    return path


def _remove(tree: Path, gone: dict[str, Any]) -> None:
    for path in sorted(gone, reverse=True):
        target = tree / path
        if not _parents_are_real(tree, path):
            continue
        if gone[path][0] == "dir":
            with contextlib.suppress(OSError):  # what the engine made in it stays
                target.rmdir()
        elif not target.is_dir() or target.is_symlink():
            target.unlink(missing_ok=True)


def _put(tree: Path, path: str, found: staging.Survey, before: list[Any] | None) -> list[Any]:
    """Bring one path up to date; its record: kind, content, executable, stamp of the copy."""
    entry = found.entries[path]
    target = tree / path
    is_new = before is None or before[:3] != [entry.kind, entry.content, entry.executable]
    status = _status(target)
    if entry.kind == "dir":
        if status is None or not stat.S_ISDIR(status.st_mode):
            _clear(target, status)
            target.mkdir(mode=0o700)
        return ["dir", "", False]
    if entry.kind == "link":
        if status is None or not stat.S_ISLNK(status.st_mode) or os.readlink(target) != entry.content:
            _clear(target, status)
            target.symlink_to(entry.content)
        return ["link", entry.content, False]
    is_there = status is not None and stat.S_ISREG(status.st_mode)
    is_as_left = before is not None and before[3:] == _stamp(status)
    if is_new or not is_there or not (is_as_left or target.name == LOCK_FILE):
        _clear(target, status)
        if not staging.copy_file(found, path, target, 0o700 if entry.executable else 0o600):
            raise staging.changing(found.root)
    return ["file", entry.content, entry.executable, *_stamp(target.lstat())]


def _stamp(status: os.stat_result | None) -> list[int]:
    # A job can set the mtime back, but not the ctime.
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino] if status else []


def _status(target: Path) -> os.stat_result | None:
    try:
        return target.lstat()
    except FileNotFoundError:
        return None


def _clear(target: Path, status: os.stat_result | None) -> None:
    if status is None:
        return
    if not stat.S_ISDIR(status.st_mode):
        target.unlink()
        return
    if any(name.endswith(".tfstate") for _, _, names in os.walk(target) for name in names):
        raise Conflict(
            f"{target} holds a state file, but is a file in the module now", hint="rename it in the module"
        )
    shutil.rmtree(target)


def _parents_are_real(tree: Path, path: str) -> bool:
    """Whether no directory above `path` was replaced by a link, which a job could have pointed anywhere."""
    above = [tree / parent for parent in Path(path).parents if parent.name]
    return not any(folder.is_symlink() for folder in above)


def _move_state(copy: WorkingCopy, earlier: str) -> None:
    folder = copy.tree / earlier
    if (
        earlier == copy.relative
        or not folder.is_dir()
        or folder.is_symlink()
        or not _parents_are_real(copy.tree, earlier)
    ):
        return
    for file in folder.glob("*.tfstate*"):
        if not (copy.module / file.name).exists():
            os.rename(file, copy.module / file.name)


def is_installed(copy: WorkingCopy) -> bool:
    """Whether what the last init installed is still all there: providers are links into the plugin cache."""
    if not copy.engine_dir.is_dir():
        return False
    providers, modules = copy.engine_dir / "providers", copy.engine_dir / "modules" / "modules.json"
    if providers.is_symlink():
        return False
    for folder, folders, files in os.walk(providers):
        if any(not os.path.exists(os.path.join(folder, name)) for name in (*folders, *files)):
            return False
    if not os.path.lexists(modules):
        return True
    try:
        return all((copy.module / module["Dir"]).is_dir() for module in read_record(modules)["Modules"])
    except (KeyError, TypeError, ValueError, OSError):
        return False
