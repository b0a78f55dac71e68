"""Who runs a jail in tests: root, or nobody with an interpreter and a copy of the room that nobody can reach."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import exocomp
from exocomp.protocol.jobs import Command, Jail
from exocomp.sandbox.sweep import sweep
from exocomp.sandbox.view import base_view
from tests.attempts import Shim

PACKAGE = Path(exocomp.__file__).parent
TIERS = ("enforcing", "degraded")
ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


class Person:
    """`base` is theirs and reachable; `room` is the directory that `exocomp` is imported from."""

    def __init__(self, name: str, base: Path) -> None:
        self.name = name
        self.uid, self.gid = (pwd.getpwnam(name).pw_uid, pwd.getpwnam(name).pw_gid)
        self.is_me = self.uid == os.geteuid()
        self.popen: dict[str, Any] = {} if self.is_me else {"user": self.uid, "group": self.gid, "extra_groups": []}
        self.base = base
        self.room = PACKAGE.parent
        self.python = os.path.realpath(sys.executable)
        os.chmod(base, 0o755)
        if not self.is_me:
            self.room = base / "room"
            copy = self.room / "exocomp"
            shutil.copytree(PACKAGE / "sandbox", copy / "sandbox")
            for name in ("__init__.py", "errors.py"):
                shutil.copy(PACKAGE / name, copy)
            self.python = self._reachable_python()
        self._attempts = 0

    def mkdir(self, *parts: str) -> Path:
        path = self.base.joinpath(*parts)
        path.mkdir(mode=0o700)
        os.chown(path, self.uid, self.gid)
        return path

    def write(self, path: Path, content: str = "secret") -> Path:
        path.write_text(content)
        path.chmod(0o600)
        os.chown(path, self.uid, self.gid)
        return path

    def popen_of(self, argv: list[str], **more: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(argv, **self.popen, **more)

    @contextlib.contextmanager
    def shim(self, *, under: tuple[str, ...] = ()) -> Iterator[Shim]:
        """An attempt of theirs, in a directory with `home` for the job; `under` is a prefix of the shim's argv."""
        self._attempts += 1
        directory = self.mkdir(f"attempt{self._attempts}")
        self.mkdir(directory.name, "home")
        shim = _Shim(
            directory,
            python=self.python,
            program=self.room / "exocomp" / "sandbox" / "shim.py",
            owner=(self.uid, self.gid),
            under=under,
            **self.popen,
        )
        try:
            yield shim
        finally:
            if shim.process is not None:
                shim.process.kill()
                shim.process.wait()
            sweep(directory)

    def jail(self, home: Path, tier: str = "enforcing", **more: Any) -> Jail:
        base = base_view()
        fields = {"read": base.read, "execute": base.execute, "write": (str(home),), **more}
        return Jail(tier=tier, **fields)

    def _reachable_python(self) -> str:
        for candidate in (self.python, "/usr/bin/python3", "/usr/local/bin/python3"):
            probe = [candidate, "-I", "-S", "-c", "import sys, ctypes; sys.exit(sys.version_info < (3, 11))"]
            with contextlib.suppress(OSError):
                if subprocess.run(probe, **self.popen, capture_output=True, check=False).returncode == 0:
                    return os.path.realpath(candidate)
        reason = f"no Python of 3.11 or later that {self.name} may run"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


class _Shim(Shim):
    def __init__(self, directory: Path, *, owner: tuple[int, int], under: tuple[str, ...], **more: Any) -> None:
        super().__init__(directory, **more)
        self._owner = owner
        self._argv = [*under, *self._argv]

    def start(self, *commands: Any, **more: Any) -> None:
        (self.directory / "lock").touch(0o600)
        os.chown(self.directory / "lock", *self._owner)
        super().start(*commands, **{"env": ENV, **more})


def jailed(person: Person, shim: Shim, *commands: Command, tier: str = "enforcing", **more: Any) -> None:
    """Started with a jail that opens the home below the attempt."""
    home = shim.directory / "home"
    fields = {name: more.pop(name) for name in ("read", "execute", "write", "files", "connect") if name in more}
    shim.start(*commands, **{"jail": person.jail(home, tier, **fields), "cwd": str(home), **more})


def names() -> list[str]:
    """Root runs as root and as nobody; anybody else only as themselves."""
    return ["root", "nobody"] if os.geteuid() == 0 else [pwd.getpwuid(os.geteuid()).pw_name]


@contextlib.contextmanager
def a_person(name: str) -> Iterator[Person]:
    base = Path(tempfile.mkdtemp(prefix="xo-jail-", dir="/tmp"))
    try:
        yield Person(name, base)
    finally:
        shutil.rmtree(base)
