"""Real plays in the real jail, with no way to Galaxy, that use what was vendored."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exocomp import runbooks
from exocomp.actors.executor import LocalExecutor
from exocomp.actors.prepare import prepare, source_of, tree_of
from exocomp.actors.vendor import Vendor
from exocomp.config import Layout, Settings
from exocomp.drivers.ansible import outcome
from exocomp.inventory import generations
from exocomp.model import Generation, Host
from exocomp.protocol.commands import VendorContent
from exocomp.protocol.jobs import Job, PlayJob
from exocomp.secrets.sealing import Seal
from exocomp.ssh.fleet_key import FleetKeys
from exocomp.store.store import open_writer
from exocomp.vendoring import requirements, tree
from tests import vendored_content as content

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAII6RUEfjC+7EvohKeBL3Gq/JAmHP/HnqPgxY1cM+sRcI acme"
POSIX = f"""
- hosts: all
  gather_facts: false
  tasks:
    - ansible.posix.authorized_key:
        user: "{{{{ lookup('pipe', 'id -un') }}}}"
        path: "{{{{ into }}}}"
        manage_dir: false
        key: {KEY}
"""
HELLO = """
- hosts: all
  gather_facts: false
  tasks:
    - acme.tools.hello:
        into: "{{ into }}"
"""
GREETER = """
- hosts: all
  gather_facts: false
  roles: [greeter]
"""

SEAL = Seal(bytes(32))


class Site:
    """A data dir and a project; plays run over one local host, as the daemon runs them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layout = Layout(root / "data")
        self.layout.root.mkdir(mode=0o700)
        self.project = root / "project"
        self.project.mkdir()
        self.executor = LocalExecutor()
        self.store = open_writer(self.layout.store)
        self.number = 0

    async def vendor(self, text: str) -> None:
        file = self.root / "requirements.yml"
        file.write_text(text)
        vendor = Vendor(self.layout, Settings(), lambda event: None)
        await vendor.carry_out(VendorContent(requirements=str(file)))

    async def start(self, playbook: str, *, at: str = "site.yml") -> tuple[PlayJob, Path]:
        self.number += 1
        directory = self.layout.attempt("job_1", self.number)
        self.into = directory / "home" / "into"
        (self.project / at).parent.mkdir(exist_ok=True)
        (self.project / at).write_text(playbook)
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "into": str(self.into),
            "role_into": str(self.into),
        }
        inventory = {"all": {"hosts": {"here": variables}}}
        path, digest = generations.write(inventory, self.layout.root / "inventories")
        spec = PlayJob(
            playbook=str(self.project / at),
            generation=Generation(
                inventory="tf:edge",
                number=1,
                path=str(path),
                digest=digest,
                hosts=(Host(name="here", address="here", connection="local"),),
                created_at=0.0,
            ),
        )
        fields: dict[str, Any] = {"workflow": "wf_1", "step": "configure", "key": None, "state": "running"}
        job = Job(id="job_1", spec=spec, attempt=self.number, created_at=0.0, **fields)
        ordered = await prepare(
            job, directory, self.store, self.layout, Settings(), FleetKeys(self.layout.keys, SEAL), SEAL
        )
        await self.executor.start(directory, ordered)
        return spec, directory

    async def play(self, playbook: str, *, at: str = "site.yml") -> Path:
        """Run it; the attempt's directory of a play that succeeded."""
        spec, directory = await self.start(playbook, at=at)
        exit = await self.executor.wait(directory)
        assert exit is not None
        verdict, _ = outcome.judge(spec, exit, directory)
        assert verdict.ok, (directory / "log").read_text()
        return directory


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("ANSIBLE_GALAXY_SERVER", "http://127.0.0.1:9/api/")
    root = Path(tempfile.mkdtemp(prefix="v"))
    site = Site(root)
    yield site
    site.store.close()
    for path, folders, _ in os.walk(root):
        for name in folders:
            os.chmod(Path(path, name), 0o700)
    shutil.rmtree(root)


async def test_a_module_of_ansible_posix_runs_in_the_jail_with_no_way_to_galaxy(site: Site) -> None:
    await site.vendor(f"collections: [{content.posix()}]")
    directory = await site.play(POSIX)
    assert site.into.read_text() == f"{KEY}\n"
    found = tree.current(site.layout.vendor)
    assert found is not None
    assert json.loads((directory / "source.json").read_text())["vendored"] == found.digest
    assert tree_of(directory) == found.path.name
    assert source_of(directory)[0] is not None
    assert "WARNING" not in (directory / "log").read_text()


async def test_without_vendoring_the_module_is_not_there_and_the_attempt_names_no_tree(site: Site) -> None:
    spec, directory = await site.start(HELLO)
    exit = await site.executor.wait(directory)
    assert exit is not None
    assert not outcome.judge(spec, exit, directory)[0].ok
    assert "acme.tools.hello" in (directory / "log").read_text()
    assert tree_of(directory) is None


@pytest.mark.parametrize("at", ["site.yml", "playbooks/site.yml"])
async def test_the_projects_own_collections_and_roles_win(site: Site, at: str) -> None:
    content.collection(site.root, "tools", "1.0.0")
    content.repository(content.role(site.root))
    await site.vendor("collections: [acme-tools-source]\nroles: [{src: ./greeter, scm: git}]\n")
    await site.play(HELLO, at=at)
    assert site.into.read_text() == "tools 1.0.0"
    await site.play(GREETER, at=at)
    assert site.into.read_text() == "from the role"
    (site.project / "ansible.cfg").touch()  # so that the project, not the playbook's directory, is what is staged

    own = site.project / "collections" / "ansible_collections" / "acme"
    own.mkdir(parents=True)
    content.collection(own, "tools", "2.0.0").rename(own / "tools")
    tasks = content.role(site.project / "roles") / "tasks" / "main.yml"
    tasks.write_text(tasks.read_text().replace("from the role", "the project's own"))
    await site.play(HELLO, at=at)
    assert site.into.read_text() == "tools 2.0.0"
    await site.play(GREETER, at=at)
    assert site.into.read_text() == "the project's own"


async def test_a_project_that_chooses_its_paths_finds_vendored_content_behind_them(site: Site) -> None:
    content.collection(site.root, "tools", "1.0.0")
    content.repository(content.role(site.root))
    await site.vendor("collections: [acme-tools-source]\nroles: [{src: ./greeter, scm: git}]\n")
    (site.project / "ansible.cfg").write_text("[defaults]\ncollections_path = ./mine\nroles_path = ./my-roles\n")
    await site.play(HELLO)
    assert site.into.read_text() == "tools 1.0.0"
    own = site.project / "mine" / "ansible_collections" / "acme"
    own.mkdir(parents=True)
    content.collection(own, "tools", "2.0.0").rename(own / "tools")
    await site.play(HELLO)
    assert site.into.read_text() == "tools 2.0.0"


async def test_a_running_play_keeps_the_tree_that_it_started_with(site: Site) -> None:
    source = content.collection(site.root, "tools", "1.0.0")
    await site.vendor(f"collections: [{source}]")
    waits = HELLO.replace("  tasks:", "  tasks:\n    - ansible.builtin.wait_for: {path: '{{ into }}.go'}")
    spec, directory = await site.start(waits)
    content.collection(site.root, "tools", "2.0.0")
    await site.vendor(f"collections: [{source}]")
    Path(f"{site.into}.go").touch()
    exit = await site.executor.wait(directory)
    assert exit is not None
    assert outcome.judge(spec, exit, directory)[0].ok, (directory / "log").read_text()
    assert site.into.read_text() == "tools 1.0.0"
    await site.play(HELLO)
    assert site.into.read_text() == "tools 2.0.0"


def test_the_seeded_runbooks_ask_for_nothing() -> None:
    assert requirements.read(runbooks.path("requirements.yml")) == requirements.Requirements()
