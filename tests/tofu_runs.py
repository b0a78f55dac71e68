"""Workspaces run through the real engine by a plain runner of AttemptSpecs; each bench has a data dir of its own."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from exocomp.config import Layout, Settings
from exocomp.drivers.tofu import order, outcome, workspace
from exocomp.model import Exit, Output, Verdict, Workspace
from exocomp.protocol.jobs import AttemptSpec, TofuJob, Verb

ENV = {"PATH": os.environ["PATH"]}


PLAIN = 'resource "terraform_data" "x" {\n  input = "a"\n}\noutput "o" {\n  value = terraform_data.x.output\n}\n'


def write(directory: Path, **files: str) -> Path:
    """Files by name, `__` standing for a slash and a missing suffix for .tf."""
    for name, text in files.items():
        path = directory / (name.replace("__", "/") + ".tf")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def require_engine() -> None:
    if shutil.which("tofu") or shutil.which("terraform"):
        return
    reason = "neither tofu nor terraform is installed"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def run_spec(spec: AttemptSpec, attempt: Path) -> Exit:
    """As the shim runs it: in order, while the code is in `ok`; stdin closed, stdout of a command where it says."""
    code, name = 0, ""
    for command in spec.commands:
        name = command.name
        with (attempt / "log").open("ab") as log, (attempt / command.stdout).open("ab") as out:
            done = subprocess.run(
                command.argv,
                env=spec.env,
                cwd=spec.cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                umask=0o077,
                check=False,
            )
        code = done.returncode
        if code not in command.ok:
            break
    return Exit(code=code, command=name)


def start(spec: AttemptSpec, name: str, log: Path) -> subprocess.Popen[bytes]:
    """One command of a spec, in the background, in its own process group."""
    command = next(c for c in spec.commands if c.name == name)
    with log.open("ab") as out:
        return subprocess.Popen(
            command.argv,
            env=spec.env,
            cwd=spec.cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            umask=0o077,
            start_new_session=True,
        )


def kill_group(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGKILL) -> None:
    os.killpg(process.pid, number)
    process.wait()


def listing(tree: Path) -> dict[str, tuple[int, int, str]]:
    """Mode, mtime and content of every path: two equal listings are an untouched tree."""
    found = {}
    for path in [tree, *sorted(tree.rglob("*"))]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(tree))] = (
            status.st_mode,
            status.st_mtime_ns,
            hashlib.sha256(content).hexdigest(),
        )
    return found


class Run:
    def __init__(self, job: TofuJob, spec: AttemptSpec, attempt: Path, exit: Exit) -> None:
        self.spec = spec
        self.attempt = attempt
        self.exit = exit
        self.verdict: Verdict = outcome.judge(job, exit, attempt)

    @property
    def names(self) -> list[str]:
        return [command.name for command in self.spec.commands]

    @property
    def log(self) -> str:
        return (self.attempt / "log").read_text(errors="replace")

    @property
    def outputs(self) -> dict[str, Output]:
        return outcome.outputs(self.attempt)

    @property
    def values(self) -> dict[str, Any]:
        return {name: output.value for name, output in self.outputs.items()}


class Bench:
    """Registers workspaces and runs jobs of them, one after the other."""

    def __init__(self, base: Path, env: Mapping[str, str] = ENV, settings: Settings | None = None) -> None:
        self.layout = Layout(base / "data")
        self.layout.root.mkdir(mode=0o700)
        self.env = env
        self.settings = settings or Settings()
        self._jobs = 0

    def add(self, directory: Path, name: str = "edge", root: str = "", **more: Any) -> Workspace:
        return workspace.check(Workspace(name=name, directory=str(directory), root=root, **more))

    def attempt(self, job: str | None = None, number: int = 1) -> Path:
        self._jobs += 1
        path = self.layout.attempt(job or f"job_{self._jobs}", number)
        path.mkdir(mode=0o700, parents=True)
        return path

    def prepare(
        self, space: Workspace, verb: Verb = Verb.APPLY, attempt: Path | None = None
    ) -> tuple[AttemptSpec, Path]:
        path = attempt or self.attempt()
        job = TofuJob(verb=verb, workspace=space)
        return order.prepare(job, self.layout, path, self.settings, self.env), path

    def run(self, space: Workspace, verb: Verb = Verb.APPLY, attempt: Path | None = None) -> Run:
        spec, path = self.prepare(space, verb, attempt)
        return Run(TofuJob(verb=verb, workspace=space), spec, path, run_spec(spec, path))

    def apply(self, space: Workspace) -> Run:
        """An apply that has to succeed."""
        done = self.run(space)
        assert done.verdict.ok, (done.verdict, done.log)
        return done

    def module(self, space: Workspace) -> Path:
        return self.layout.workspaces / space.name / "tree" / os.path.relpath(space.directory, space.root)
