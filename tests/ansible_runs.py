"""Runs what the ansible driver orders, as the shim would, against local connections and a real sshd on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from exocomp.config import Settings
from exocomp.drivers.ansible import order, outcome
from exocomp.model import Exit, Generation, Host, Pin, Trust, Verdict
from exocomp.protocol.jobs import AttemptSpec, Companion, PlayJob
from exocomp.protocol.queries import HostResult
from exocomp.ssh.companion import companion
from exocomp.ssh.fleet_key import FleetKey
from exocomp.ssh.known_hosts import parse

LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAII6RUEfjC+7EvohKeBL3Gq/JAmHP/HnqPgxY1cM+sRcI exocomp fleet"


def inventory_of(hosts: dict[str, dict[str, Any]], groups: dict[str, list[str]] | None = None) -> str:
    children = {group: {"hosts": {member: {} for member in members}} for group, members in (groups or {}).items()}
    return json.dumps({"all": {"hosts": hosts, "children": children}})


class Bench:
    """One project and its attempts below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "project"
        self.project.mkdir()
        self.key = root / "fleet"
        self.number = 0

    @property
    def attempt(self) -> Path:
        return self.root / str(self.number)

    def order(
        self, playbook: str, inventory: str, *, hosts: tuple[str, ...] = ("a",), known_hosts: str = "", **fields: Any
    ) -> tuple[PlayJob, AttemptSpec]:
        """Write playbook and inventory and prepare the next attempt at them."""
        self.number += 1
        self.attempt.mkdir(mode=0o700)
        (self.project / "site.yml").write_text(playbook)
        (self.attempt / "inventory.json").write_text(inventory)
        public = fields.pop("fleet_public", PUBLIC)
        pinned, users = fields.pop("pinned", known_hosts), fields.pop("users", None)
        agent = self.agent(pinned, users) if self.key.exists() and pinned else None
        settings = fields.pop("settings", Settings())
        job = PlayJob(
            playbook=str(self.project / "site.yml"),
            generation=Generation(
                inventory="tf:edge",
                number=1,
                path="",
                digest="",
                hosts=tuple(Host(name=name, address=name) for name in hosts),
                created_at=0.0,
            ),
            **fields,
        )
        line = self.key.with_suffix(".pub").read_text() if agent else public
        spec = order.prepare(
            job,
            attempt=self.attempt,
            project=self.project,
            playbook=self.project / "site.yml",
            inventory=self.attempt / "inventory.json",
            known_hosts=known_hosts,
            fleet=order.Fleet(pushed=line, offered=(line,)),
            agent=agent,
            facts=self.root / "facts",
            settings=settings,
        )
        return job, spec

    def agent(self, pinned: str, users: frozenset[str] | None) -> Companion:
        """The agent for the hosts and keys of a known_hosts text."""
        pins: dict[str, list[Pin]] = {}
        for entry in parse(pinned):
            name, (kind, blob) = entry.names[0], entry.key
            pin = Pin(name=name, key_type=kind, key=blob, trust=Trust.TOFU, pinned_at=0.0, fingerprint="")
            pins.setdefault(name, []).append(pin)
        private = load_ssh_private_key(self.key.read_bytes(), None)
        assert isinstance(private, Ed25519PrivateKey)
        return companion((FleetKey(private.private_bytes_raw()),), self.attempt, pins, users)

    def run(self, spec: AttemptSpec) -> Exit:
        command = spec.commands[0]
        with beside(spec.companion, self.attempt), (self.attempt / command.stdout).open("ab") as log:
            done = subprocess.run(
                command.argv,
                env=spec.env,
                cwd=spec.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                timeout=120,
                check=False,
            )
        return Exit(code=done.returncode, command=command.name)

    def play(self, playbook: str, inventory: str, **fields: Any) -> tuple[Verdict, dict[str, HostResult]]:
        job, spec = self.order(playbook, inventory, **fields)
        try:
            verdict, results = outcome.judge(job, self.run(spec), self.attempt)
        finally:
            self.end_masters()
        return verdict, {result.host: result for result in results}

    def end_masters(self, attempt: Path | None = None) -> None:
        for control in ((attempt or self.attempt) / "c").iterdir():
            path = str(control).replace("%", "%%")
            subprocess.run(["ssh", "-O", "exit", "-o", f'ControlPath="{path}"', "x"], check=True, capture_output=True)

    @property
    def log(self) -> str:
        return (self.attempt / "log").read_text("utf-8", "replace")


@contextlib.contextmanager
def beside(agent: Companion | None, attempt: Path) -> Iterator[subprocess.Popen[bytes] | None]:
    """The companion of an attempt, started and ended as the shim does."""
    if agent is None:
        yield None
        return
    secret = os.memfd_create("secret")
    os.write(secret, agent.secret.encode())
    argv = [part.replace("{fd}", str(secret)) for part in agent.argv]
    with (attempt / "log").open("ab") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[secret])
    os.close(secret)
    try:
        while not Path(agent.ready).exists():
            assert process.poll() is None, (attempt / "log").read_text()
            time.sleep(0.005)
        yield process
    finally:
        process.terminate()
        process.wait()


def new_key(path: Path, comment: str = "test", kind: tuple[str, ...] = ("ed25519",)) -> str:
    """Make a key pair, `kind` being ssh-keygen's -t and what follows; returns the public line."""
    subprocess.run(["ssh-keygen", "-q", "-t", *kind, "-N", "", "-C", comment, "-f", path], check=True)
    return path.with_name(path.name + ".pub").read_text().strip()


class Sshd:
    """A real sshd on a loopback port of its own, with its own host key and authorized_keys."""

    def __init__(self, root: Path, port: int) -> None:
        self.port = port
        self.authorized = root / "authorized_keys"
        self.host_key = (root / "host_key.pub").read_text().strip()

    def authorize(self, *lines: str) -> None:
        self.authorized.write_text("".join(f"{line}\n" for line in lines))

    @property
    def known_hosts(self) -> str:
        return f"[127.0.0.1]:{self.port} {self.host_key}\n"

    def inventory(self, **variables: Any) -> str:
        host = {"ansible_host": "127.0.0.1", "ansible_port": self.port, "ansible_user": "root"}
        return inventory_of({"a": {**host, "ansible_python_interpreter": sys.executable, **variables}})


@contextlib.contextmanager
def sshd(root: Path, *, subsystem: bool = True, kind: tuple[str, ...] = ("ed25519",)) -> Iterator[Sshd]:
    program = shutil.which("sshd", path="/usr/sbin:/usr/bin:/usr/local/sbin") or "/usr/sbin/sshd"
    new_key(root / "host_key", kind=kind)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    options = {
        "HostKey": root / "host_key",
        "AuthorizedKeysFile": root / "authorized_keys",
        "ListenAddress": "127.0.0.1",
        "Port": port,
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "prohibit-password",
        **({"Subsystem": "sftp internal-sftp"} if subsystem else {}),
    }
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # its privilege separation directory
    argv = [program, "-D", "-e", "-f", "/dev/null"]
    for name, value in options.items():
        argv += ["-o", f"{name}={value}"]
    with (root / "sshd.log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.02)
        else:
            raise AssertionError((root / "sshd.log").read_text())
        yield Sshd(root, port)
    finally:
        process.terminate()
        process.wait()
