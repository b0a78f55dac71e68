"""From a command and its jail to what the shim starts: the outer layers as argv, the inner ones as a policy."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from exocomp.sandbox import bubblewrap, records, view
from exocomp.sandbox.layers import NAMESPACES, NOT_APPLIED, OFF, TIERS, LayerMissing, Tier

_LAUNCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launch.py")


PREFIX = "exocomp: nothing was run: "


class Policy(TypedDict):
    """What launch.py is told; `landlock` is the ABI that is needed (0: none), `rules` are landlock.restrict's,
    `files` view.View's."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    rules: Sequence[tuple[str, str]]
    files: Sequence[tuple[str, int, int]]
    connect: Sequence[int]
    landlock: int
    seccomp: bool


class Enclosed(NamedTuple):
    """A program to start with the descriptors it inherits; `applied` is None when there is no jail."""

    argv: list[str]
    env: Mapping[str, str]
    keep: tuple[int, ...] = ()
    applied: int | None = None
    in_namespaces: bool = False

    def opened(self) -> None:
        """Call when the program was started: what it inherits is no longer needed here."""
        for fd in self.keep:
            os.close(fd)

    def ended(self, status: int) -> tuple[int, str]:
        """The exit code for a wait status, and a line for the log when the program could not be started."""
        code = os.waitstatus_to_exitcode(status)
        if self.applied is None:
            return code, ""
        # bwrap tells death by a signal as a shell does.
        if self.in_namespaces and code - 128 in signal.valid_signals():
            code = 128 - code
        if self._word() or code < 0:
            return code, ""
        return NOT_APPLIED, refusal(
            LayerMissing(NAMESPACES, "bwrap could not make them, see above", bubblewrap.cure())
        )

    def was_applied(self) -> bool:
        return self._word() == b"+"

    def _word(self) -> bytes:
        """What launch.py had to say: "+" the layers hold, "-" it told why not, nothing when it did not even start."""
        assert self.applied is not None
        try:
            return os.read(self.applied, 1)
        except BlockingIOError:  # somebody still holds the other end, who never got to write
            return b""
        finally:
            os.close(self.applied)


def refusal(why: Exception) -> str:
    return f"{PREFIX}{why}\n"


def enclose(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, jail: Mapping[str, Any] | None, directory: str
) -> Enclosed:
    """Plain without a jail or with tier off. Raises LayerMissing, or view.BadJail for a jail that cannot hold."""
    if jail is None or jail["tier"] == OFF:
        return Enclosed(list(argv), env)
    if jail["tier"] not in TIERS:
        raise view.BadJail(f"there is no tier {jail['tier']!r}, only {', '.join(TIERS)}")
    return surround(argv, env, cwd, jail, directory, TIERS[jail["tier"]])


def surround(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, jail: Mapping[str, Any], directory: str, layers: Tier
) -> Enclosed:
    """With exactly these layers. Policy, environment and secrets go by a memfd, never by argv or a file."""
    seen = view.look(jail, directory, launcher(), mounted=layers.namespaces)
    outer = [bubblewrap.find(), *bubblewrap.ISOLATION, *seen.mounts, "--"] if layers.namespaces else []
    policy = Policy(
        argv=list(argv),
        env=dict(env),
        cwd=cwd,
        rules=seen.rules,
        files=seen.files,
        connect=list(jail["connect"]),
        landlock=layers.landlock,
        seccomp=layers.seccomp,
    )
    policy_fd = memory("policy", json.dumps(policy).encode())
    applied, told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    inner = [_python(), "-I", "-S", _LAUNCH, str(policy_fd), str(told)]
    return Enclosed([*outer, *inner], _launcher_env(env), (policy_fd, told), applied, layers.namespaces)


def memory(name: str, content: bytes) -> int:
    """A descriptor of an anonymous file, at its beginning (memfd_create(2))."""
    fd = os.memfd_create(name)
    records.write_all(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def launcher() -> list[str]:
    """Files and trees without which launch.py does not run: the interpreter of the shim, and this package's room."""
    room = os.path.dirname(_LAUNCH)
    trees = [sys.base_prefix, sys.base_exec_prefix, room]
    files = [_python(), os.path.join(os.path.dirname(room), "__init__.py"), *_mapped_libraries()]
    return [*dict.fromkeys(trees), *(file for file in files if not any(file.startswith(f"{t}/") for t in trees))]


def _python() -> str:
    """Past the links of a virtual environment, which need not be visible to a job."""
    return os.path.realpath(sys.executable)


def _mapped_libraries() -> list[str]:
    """What this very interpreter loaded, wherever LD_LIBRARY_PATH or a run path found it."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        mapped = (line.rstrip("\n").split(None, 5) for line in file)
        paths = dict.fromkeys(row[5] for row in mapped if len(row) == 6)
    return [path for path in paths if path.startswith("/") and ".so" in path and os.path.exists(path)]


def _launcher_env(env: Mapping[str, str]) -> dict[str, str]:
    """Nothing of the job's, but the mark by which processes of the attempt are found."""
    own = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    mark = {records.MARK: env[records.MARK]} if records.MARK in env else {}
    return {"LC_ALL": "C.UTF-8", **own, **mark}
