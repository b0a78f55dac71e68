"""Staging: a directory tree surveyed by content and copied, content-addressed and read-only, into the data dir."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from exocomp.errors import Conflict, ExocompError, WrongUsage

_SKIPPED = frozenset({".git", ".terraform", "__pycache__", ".venv", "node_modules"})
_SETTLED_S = 2.0  # a younger stamp proves nothing: the file may change again within one tick of its clock
_TRIES = 3
_CHUNK = 1 << 20

Skip = Callable[[str], bool]


class Entry(msgspec.Struct, frozen=True):
    """One path of a tree: `content` is the sha256 of a file, the target of a link, nothing for a directory."""

    kind: str  # "file", "dir" or "link"
    content: str = ""
    executable: bool = False
    size: int = 0


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """What a tree holds, by relative path, parents first; `skipped` are sockets, FIFOs and devices."""

    root: Path
    entries: dict[str, Entry]
    digest: str
    skipped: tuple[str, ...] = ()


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable copy; `digest` is the sha256 of the tree, `commit` the HEAD of the git checkout it is part of."""

    path: Path
    digest: str
    commit: str | None
    skipped: tuple[str, ...] = ()


def is_skipped(relative: str) -> bool:
    """Whether a path is never staged: version control, caches and state files."""
    name = relative.rpartition("/")[2]
    is_state = ".tfstate" in name and not name.endswith((".tf", ".tf.json", ".tofu", ".tofu.json"))
    return name in _SKIPPED or is_state


def stage(root: Path, into: Path, limit_bytes: int, skip: Skip = is_skipped) -> Staged:
    """Copy `root` to `into/<digest16>`, unless it is there; the directory around `into` is never part of a copy.

    Raises WrongUsage for a tree over the limit, a link that leaves it or a file that can't be read, Conflict
    when the tree keeps changing, ExocompError when the disk fails.
    """
    try:
        return _stage(root, into, limit_bytes, skip)
    except OSError as error:
        what = f"cannot stage {root}: {error.strerror} ({error.filename})"
        raise ExocompError(what, hint="check space and permissions of the data dir, then try again") from error


def _stage(root: Path, into: Path, limit_bytes: int, skip: Skip) -> Staged:
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    for _ in range(_TRIES):
        found = survey(root, into, limit_bytes, skip)
        target = into / found.digest[:16]
        if target.is_dir() or _place(found, target):
            commit = head_commit(root)
            return Staged(path=target, digest=found.digest, commit=commit, skipped=found.skipped)
    raise changing(root)


def survey(root: Path, into: Path, limit_bytes: int, skip: Skip = is_skipped) -> Survey:
    """Look at every path of `root`; files whose size, times and inode are as last time are not read again.

    The stamps lie in `into/.stamps`. Raises as `stage` does.
    """
    real = Path(os.path.realpath(root))
    stamps = into / ".stamps" / hashlib.sha256(os.fsencode(real)).hexdigest()[:32]
    known = _load(stamps)
    seen: dict[str, Any] = {}
    entries: dict[str, Entry] = {}
    skipped = []
    left = limit_bytes
    for relative, path, status in _walk(real, skip, _identities(into)):
        if stat.S_ISDIR(status.st_mode):
            entries[relative] = Entry("dir")
        elif stat.S_ISLNK(status.st_mode):
            entries[relative] = Entry("link", _inner_target(real, relative, path))
        elif stat.S_ISREG(status.st_mode):
            left -= status.st_size
            if left < 0:
                raise _too_big(root, relative, limit_bytes)
            digest = _digest(path, status, relative, known, seen)
            entries[relative] = Entry("file", digest, bool(status.st_mode & 0o111), status.st_size)
        else:
            skipped.append(relative)
    if seen != known:
        _save(stamps, seen)
    listing = json.dumps([[path, e.kind, e.content, e.executable] for path, e in sorted(entries.items())])
    digest = hashlib.sha256(listing.encode()).hexdigest()
    return Survey(root=real, entries=entries, digest=digest, skipped=tuple(skipped))


def copy_file(found: Survey, relative: str, target: Path, mode: int) -> bool:
    """Copy one surveyed file to `target`, which must not exist; False when its content is no longer the surveyed."""
    try:
        source = os.open(found.root / relative, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    hashed = hashlib.sha256()
    with (
        open(source, "rb") as reader,
        open(target, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as out,
    ):
        while chunk := reader.read(_CHUNK):
            hashed.update(chunk)
            out.write(chunk)
        os.fchmod(out.fileno(), mode)
    return hashed.hexdigest() == found.entries[relative].content


def changing(root: Path) -> Conflict:
    return Conflict(f"{root} keeps changing while it is copied", hint="try again when nothing writes to it")


def project_root(playbook: Path) -> Path:
    """What is staged for a playbook: its git checkout, else the nearest directory with ansible.cfg or roles/,
    else its own directory. A link is followed first."""
    own = playbook.resolve().parent
    checkout = git_top(own)
    if checkout is not None:
        return checkout
    above = (folder for folder in (own, *own.parents) if folder != folder.parent)
    return next((a for a in above if (a / "ansible.cfg").is_file() or (a / "roles").is_dir()), own)


def git_top(directory: Path) -> Path | None:
    """The top of the checkout (or worktree, or submodule) that `directory` lies in."""
    return next((above for above in (directory, *directory.parents) if (above / ".git").exists()), None)


def head_commit(directory: Path) -> str | None:
    """The object name that HEAD of the checkout around `directory` points at (gitrepository-layout(5))."""
    top = git_top(Path(os.path.realpath(directory)))
    if top is None:
        return None
    git = top / ".git"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if git.is_file():  # a worktree or a submodule: "gitdir: <path>"
            git = top / git.read_text().removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head or None
        common = git / "commondir"
        places = (git, git / common.read_text().strip()) if common.is_file() else (git,)
        ref = head.removeprefix("ref:").strip()
        return next((name for place in places if (name := _resolve_ref(place, ref))), None)
    return None


def _resolve_ref(git: Path, ref: str) -> str | None:
    with contextlib.suppress(OSError):
        return (git / ref).read_text().strip() or None
    with contextlib.suppress(OSError):
        for line in (git / "packed-refs").read_text().splitlines():
            name, _, of = line.partition(" ")
            if of == ref:
                return name
    return None


def _walk(root: Path, skip: Skip, never: set[tuple[int, int]]) -> Iterator[tuple[str, Path, os.stat_result]]:
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            children = sorted(os.scandir(root / above), key=lambda child: child.name)
            statuses = [child.stat(follow_symlinks=False) for child in children]
        except OSError as error:
            raise _unreadable(root / above, error) from None
        for child, status in zip(children, statuses, strict=True):
            relative = f"{above}/{child.name}" if above else child.name
            if skip(relative) or (status.st_dev, status.st_ino) in never:
                continue
            yield relative, root / relative, status
            if stat.S_ISDIR(status.st_mode):
                waiting.append(relative)


def _identities(into: Path) -> set[tuple[int, int]]:
    """`into` and the data dir around it, which a project may contain but never hands to a job."""
    found = set()
    for folder in (into, into.parent):
        with contextlib.suppress(FileNotFoundError):
            status = folder.stat()
            found.add((status.st_dev, status.st_ino))
    return found


def _inner_target(root: Path, relative: str, path: Path) -> str:
    """The link's target relative to the link, so that it holds in a copy; raises WrongUsage when it leaves `root`."""
    target = Path(os.path.realpath(path))
    if not target.is_relative_to(root):
        raise WrongUsage(
            f"{path} is a link to {target}, outside of {root}, which is what gets staged",
            hint="put a copy in its place, or keep both in one git checkout",
        )
    return os.path.relpath(target, (root / relative).parent)


def _digest(path: Path, status: os.stat_result, relative: str, known: dict[str, Any], seen: dict[str, Any]) -> str:
    stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]
    settled = max(status.st_mtime, status.st_ctime) + _SETTLED_S < time.time()
    entry = known.get(relative)
    if entry is None or entry[0] != stamp:
        try:
            with path.open("rb") as stream:
                entry = [stamp, hashlib.file_digest(stream, "sha256").hexdigest()]
        except OSError as error:
            raise _unreadable(path, error) from None
    if settled:
        seen[relative] = entry
    return str(entry[1])


def _place(found: Survey, target: Path) -> bool:
    """Make the copy beside `target` and rename it there; False when the tree changed meanwhile."""
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        for relative, entry in found.entries.items():
            path = temporary / relative
            if entry.kind == "dir":
                path.mkdir(mode=0o700)
            elif entry.kind == "link":
                path.symlink_to(entry.content)
            elif not copy_file(found, relative, path, 0o500 if entry.executable else 0o400):
                return False
        for relative in [r for r, entry in found.entries.items() if entry.kind == "dir"][::-1]:
            (temporary / relative).chmod(0o500)
        temporary.chmod(0o500)
        try:
            os.rename(temporary, target)
        except OSError:
            if not target.is_dir():  # else somebody staged the same content meanwhile: both copies are alike
                raise
        return True
    finally:
        if temporary.exists():
            discard(temporary)


def discard(tree: Path) -> None:
    """Remove a tree, read-only directories in it as well."""
    for folder, _, _ in os.walk(tree):
        os.chmod(folder, 0o700)
    shutil.rmtree(tree)


def _load(stamps: Path) -> dict[str, Any]:
    try:
        known = json.loads(stamps.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _save(stamps: Path, seen: dict[str, Any]) -> None:
    stamps.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=stamps.parent)
    with open(handle, "w") as out:
        json.dump(seen, out)
    os.rename(name, stamps)


def _unreadable(path: Path, error: OSError) -> WrongUsage:
    return WrongUsage(f"cannot read {path}: {error.strerror}", hint="the daemon must be able to read what it stages")


def _too_big(root: Path, relative: str, limit_bytes: int) -> WrongUsage:
    return WrongUsage(
        f"{root} holds more than {limit_bytes / (1 << 20):g} MiB (reached at {relative})",
        hint="move what the run does not need out of it, name a smaller root, or raise the setting stage_limit_mib",
    )
