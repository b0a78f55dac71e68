"""Real machines: own root, own address, own processes, a real sshd; and the lab that wires them together."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from tests.lab import namespaces
from tests.lab.namespaces import ip

INIT = ("sshd", "sleep")  # what boot.sh becomes at its end
BOOT = Path(__file__).with_name("boot.sh")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
UNSHARE = ["unshare", "--mount", "--propagation", "private", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
TOOLS = ("ip", "nsenter", "unshare", "ssh", "ssh-keygen", "/usr/sbin/sshd")


def missing() -> str:
    """Why no lab can be built here; empty when one can."""
    if os.geteuid() != 0:
        return "the lab needs root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"the lab needs {', '.join(absent)}" if absent else ""


class Lab:
    """A bridge with address 10.77.0.1/16 in a controller namespace, and the machines on it."""

    def __init__(self) -> None:
        namespaces.sweep_abandoned()
        self.prefix = f"xo{secrets.token_hex(2)}"
        self.home = namespaces.claim(self.prefix)
        atexit.register(self.close)
        self.controller = f"{self.prefix}-ctl"
        self._lock = threading.Lock()
        self._networks = 0
        self._links = 0
        self.machines: list[Machine] = []
        ip("netns", "add", self.controller)
        ip("-n", self.controller, "link", "set", "lo", "up")
        ip("-n", self.controller, "link", "add", "br0", "type", "bridge")
        ip("-n", self.controller, "addr", "add", "10.77.0.1/16", "dev", "br0")
        ip("-n", self.controller, "link", "set", "br0", "up")
        self.key = self.home / "id_lab"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key, "-C", "lab"], check=True)
        self.public_key = self.key.with_suffix(".pub").read_text().strip()

    def network(self) -> str:
        """A /24 that nobody used before."""
        with self._lock:
            self._networks += 1
            return f"10.77.{self._networks}.0/24"

    def link(self) -> str:
        with self._lock:
            self._links += 1
            return f"v{self._links}"

    @property
    def argv(self) -> list[str]:
        """Prefix of commands that run on the control plane."""
        return namespaces.enter(self.controller)

    def close(self) -> None:
        for machine in list(self.machines):
            machine.power_cut()
        namespaces.sweep(self.prefix)
        atexit.unregister(self.close)


class Machine:
    """Booted on construction. `sshd` False: it is up and its network answers, but nothing listens."""

    def __init__(self, lab: Lab, name: str, address: str, *, port: int = 22, sshd: bool = True) -> None:
        self.lab = lab
        self.name = name
        self.address = address
        self.port = port
        self._netns = f"{lab.prefix}-{lab.link()}"
        self._dir = lab.home / self._netns
        self._dir.mkdir()
        self._wire()
        self._log = (lab.home / f"{self._netns}.log").open("w")
        self._process = subprocess.Popen(
            [
                *namespaces.enter(self._netns),
                *UNSHARE,
                *("bash", str(BOOT), str(self._dir), name, address, lab.public_key, str(port)),
                "yes" if sshd else "no",
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={"PATH": PATH},
        )
        lab.machines.append(self)

    def _wire(self) -> None:
        link = self._netns.rpartition("-")[2]
        ip("netns", "add", self._netns)
        ip(
            "link",
            "add",
            link,
            "netns",
            self.lab.controller,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            self._netns,
        )
        ip("-n", self.lab.controller, "link", "set", link, "master", "br0", "up")
        ip("-n", self._netns, "addr", "add", f"{self.address}/16", "dev", "eth0")
        ip("-n", self._netns, "link", "set", "eth0", "up")
        ip("-n", self._netns, "link", "set", "lo", "up")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def power_cut(self) -> None:
        """Every process dies at once, the disk and the address are gone."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._log.close()
        self.lab.machines.remove(self)
        ip("netns", "del", self._netns)
        deadline = time.monotonic() + 10
        while True:
            try:
                return self._dir.rmdir()
            except OSError:  # the kernel is still unmounting the dead machine's disk
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def rekey(self) -> None:
        """New host keys, as after a reinstallation, or when somebody is in the middle."""
        old = self.host_keys()
        self.run("rm /etc/ssh/ssh_host_*")
        for kind in ("ed25519", "ecdsa"):
            self.run(f"ssh-keygen -q -t {kind} -N '' -f /etc/ssh/ssh_host_{kind}_key")
        self.run("kill -HUP 1")
        self.wait_until_it_answers()
        assert self.host_keys().isdisjoint(old)

    def run(self, command: str) -> str:
        """Run a shell command on the machine as root and return its stdout; raises CalledProcessError."""
        argv = ["nsenter", "-t", str(self._pid_1()), "-m", "-u", "-i", "-n", "-p", "-r", "-w"]
        done = subprocess.run(
            [*argv, "/bin/sh", "-c", command], capture_output=True, text=True, check=True, env={"PATH": PATH}
        )
        return done.stdout

    def read(self, path: str) -> str:
        """The content of a file on the machine; empty when there is none."""
        return self.run(f"cat {path} 2>/dev/null || true")

    def host_keys(self) -> set[tuple[str, str]]:
        """(type, base64 blob) of each host key on its disk."""
        lines = self.run("cat /etc/ssh/ssh_host_*.pub").splitlines()
        return {(line.split()[0], line.split()[1]) for line in lines}

    def wait_until_it_answers(self, timeout_s: float = 30.0) -> None:
        """For tests that need a machine without a chain that waits; raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                if namespaces.inside(self.lab.controller, self._banner).startswith(b"SSH-2.0"):
                    return
            except OSError:
                time.sleep(0.05)
        raise TimeoutError(f"{self.name} did not answer: {Path(self._log.name).read_text()}")

    def _banner(self) -> bytes:
        with socket.create_connection((self.address, self.port), 1) as link:
            link.settimeout(1)
            return link.recv(64)

    def _pid_1(self) -> str:
        """Its init, once it lives in the machine's own root: before that a command would run on ours."""
        deadline = time.monotonic() + 10
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        while True:
            for pid in children.read_text().split():
                if Path(f"/proc/{pid}/comm").read_text().strip() in INIT:
                    return pid
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} did not boot")
            time.sleep(0.02)
