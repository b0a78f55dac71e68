"""What a job sees: its jail (protocol.jobs.Jail as JSON has it) as bubblewrap's mounts and Landlock's rules; pure
but for looking at the paths that it names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from exocomp.sandbox import landlock, records

PRIVATE = ("/dev/shm", "/tmp")  # never the host's own: an empty one that goes with the command
PROC = "/proc"  # as `read`: that of the job's own processes


class Base(NamedTuple):
    """Fields of a Jail that programs of a distribution need to run at all."""

    execute: tuple[str, ...]
    read: tuple[str, ...]


def base_view() -> Base:
    """The system's programs, libraries and public tables; no directory in it holds private keys."""
    return Base(
        execute=("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"),
        read=(
            *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/os-release"),
            *("/etc/hosts", "/etc/resolv.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols"),
            *("/etc/ld.so.cache", "/etc/alternatives", "/etc/crypto-policies", "/etc/ca-certificates"),
            *("/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf"),
            *("/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf"),
        ),
    )


class View(NamedTuple):
    """`mounts` are arguments of bwrap(1); `rules` go to landlock.restrict, inside the mounts or without them.

    `files` are (place, device, inode): what has to lie at those places once it is mounted.
    """

    mounts: list[str]
    rules: list[tuple[str, str]]
    files: list[tuple[str, int, int]]


_DEVICES = (
    *((landlock.DEVICE, f"/dev/{name}") for name in ("null", "zero", "full", "random", "urandom")),
    *((landlock.TERMINAL, f"/dev/{name}") for name in ("ptmx", "pts")),
    (landlock.WRITE, "/dev/shm"),
)
# Of these the job would see the records, if its jail opens the directory of the attempt itself.
_HIDDEN_TO_READERS = (records.LOCK, records.LOG, records.SHIM)
_HIDDEN = (*_HIDDEN_TO_READERS, records.EXIT, records.temporary(records.EXIT))


class BadJail(Exception):
    """A jail that would not hold; the text names the entry."""


def look(jail: Mapping[str, Any], directory: str, launcher: Iterable[str], *, mounted: bool) -> View:
    """The view of a job whose attempt is in `directory`; `launcher` are files and trees that start it.

    The attempt's records are hidden from the job also where the jail opens the attempt's directory.
    Raises BadJail for a path that is not absolute or that a job itself could have bent, and when a directory to
    write or a file to show is absent, or the file is none or, to be shown at its own place, lies behind a link.
    """
    # Where nothing is mounted these would be the machine's own.
    write = [tree for tree in jail["write"] if mounted or tree not in PRIVATE]
    execute = [*launcher, *jail["execute"]]
    read = list(jail["read"])
    files = [(source, place) for source, place in jail["files"]]
    for path in (*(tree for tree in write if tree not in PRIVATE), *(source for source, _ in files)):
        if not os.path.exists(path):
            raise BadJail(f"{path} is not there")
    _refuse_bent([*execute, *read, *write, *(source for source, _ in files)], [d for d in write if d not in PRIVATE])
    shown = [
        (place if mounted else source, *_identity(source, at_its_own=source == place)) for source, place in files
    ]
    mounts = _mounts([*execute, *read], write, files, PROC in read)
    rules = [
        *_DEVICES,
        *((landlock.EXECUTE, path) for path in execute),
        *((landlock.READ, path) for path in read),
        *((landlock.WRITE, path) for path in write),
        *((landlock.FILE, path) for pair in files for path in pair),
    ]
    return View(
        [
            *mounts,
            *_hidden(directory, read + execute, [d for d in write if d not in PRIVATE]),
            "--remount-ro",
            "/dev",
            "--remount-ro",
            "/",
        ],
        rules,
        shown,
    )


def _mounts(
    visible: Sequence[str], write: Sequence[str], files: Sequence[tuple[str, str]], with_proc: bool
) -> list[str]:
    """Outer places first, so that inner ones lie on top; at one place the later kind wins."""
    places: dict[str, list[str]] = {}
    for path in visible:
        if path != PROC and not _is_shown(path, visible, write):
            places[path] = _show(path, visible)
    for path in write:
        places[path] = ["--tmpfs", path] if path in PRIVATE else ["--bind", path, path]
    for source, place in files:
        places[place] = ["--ro-bind", source, place]
    mounts = ["--dev", "/dev", "--tmpfs", "/dev/shm", *(["--proc", PROC] if with_proc else [])]
    for place in sorted(places, key=lambda place: (place.count("/"), place)):
        mounts += places[place]
    return mounts


def _is_shown(path: str, visible: Sequence[str], write: Sequence[str]) -> bool:
    inside = any(tree != path and _within(path, tree) for tree in visible)
    return inside and not any(_within(path, tree) for tree in write)


def _show(path: str, visible: Sequence[str]) -> list[str]:
    """Links to what is visible anyway stay links, as /bin → usr/bin; others show what they lead to."""
    if os.path.islink(path) and any(_within(os.path.realpath(path), tree) for tree in visible if tree != path):
        return ["--symlink", os.readlink(path), path]
    return ["--ro-bind-try", path, path]


def _hidden(directory: str, read: Sequence[str], write: Sequence[str]) -> list[str]:
    names: tuple[str, ...] = ()
    if any(_within(directory, tree) for tree in write):
        names = _HIDDEN
    elif any(_within(directory, tree) for tree in read):
        names = _HIDDEN_TO_READERS
    # A place that is mounted upon can be neither unlinked nor renamed by the job; the shim outside can.
    return [word for name in names for word in ("--ro-bind", os.devnull, os.path.join(directory, name))]


def _identity(path: str, *, at_its_own: bool) -> tuple[int, int]:
    """Device and inode of a regular file, for whoever opens the path later: it may have been replaced meanwhile."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise BadJail(f"{path} is not a regular file")
        if at_its_own and os.readlink(f"/proc/self/fd/{fd}") != path:
            raise BadJail(f"{path} leads through a link")
    finally:
        os.close(fd)
    return status.st_dev, status.st_ino


def _refuse_bent(paths: Iterable[str], write: Sequence[str]) -> None:
    """No entry may lie behind a link that an earlier command of the job could have made."""
    for path in paths:
        if not os.path.isabs(path) or path != os.path.normpath(path):
            raise BadJail(f"{path!r} is not a plain absolute path")
        for tree in write:
            inner = path != tree and _within(path, tree)
            if inner and os.path.realpath(path) != os.path.join(os.path.realpath(tree), os.path.relpath(path, tree)):
                raise BadJail(f"{path} leads through a link below {tree}, where the job may write")


def _within(path: str, tree: str) -> bool:
    return path == tree or path.startswith(tree.rstrip("/") + "/")
