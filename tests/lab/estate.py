"""What a person has: a module, playbooks, a key, and machines that a cloud makes of them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.cloud import Cloud
from tests.lab.home import Home
from tests.lab.machines import Lab

HERE = Path(__file__).parent
WORKSPACE = "edge"


class Estate:
    """A home on the control plane, a cloud, and the workspace `edge` whose apply asks that cloud for machines."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.cloud = Cloud(lab, lab.network())
        self.home = Home(lab.argv)
        self.module = self.home.work / "module"
        shutil.copytree(HERE / "module", self.module)
        shutil.copytree(HERE / "plays", self.home.work / "plays")
        self.key = self.home.work / "id_lab"
        shutil.copyfile(lab.key, self.key)
        self.key.chmod(0o600)

    def order(self, *names: str, port: int = 22, host_vars: Mapping[str, str] | None = None) -> None:
        """Say in the module which machines there shall be after the next apply."""
        values = {
            "cloud": self.cloud.url,
            "python": sys.executable,
            "network": self.cloud.network,
            "machines": names,
            "port": port,
            "host_vars": dict(host_vars or {}),
        }
        (self.module / "lab.auto.tfvars.json").write_text(json.dumps(values))

    def register(self) -> None:
        self.home.run("workspace", "add", WORKSPACE, str(self.module), "--egress", str(self.cloud.port))

    def play(self, name: str) -> str:
        return str(self.home.work / "plays" / name)

    def chain(self, play: str = "site.yml", *flags: str) -> Sequence[str]:
        """The words of `exocomp provision run` with the lab's key as first login."""
        return ("provision", "run", WORKSPACE, self.play(play), "--ssh-identity", str(self.key), *flags)

    def marks(self, name: str, file: str) -> int:
        """How many lines the plays left in a file of a machine."""
        return len(self.cloud.machine(name).read(file).splitlines())

    def close(self) -> None:
        self.home.close()
        self.cloud.close()
