"""Whatever the umask that the daemon was started with, everything in its data dir is its owner's alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import pytest

from tests.lab.home import Home

MODULE = """
resource "terraform_data" "machine" {
  provisioner "local-exec" {
    command = "touch made"
  }
}
output "ansible_inventory" {
  value = { all = { hosts = { here = { ansible_connection = "local" } } } }
}
"""
PLAY = "- hosts: all\n  gather_facts: false\n  tasks:\n    - ansible.builtin.command: 'true'\n"


@pytest.fixture(params=[0o000, 0o022])
def home(request: pytest.FixtureRequest) -> Iterator[Home]:
    home = Home()
    (home.work / "module").mkdir()
    (home.work / "module" / "main.tf").write_text(MODULE)
    (home.work / "play.yml").write_text(PLAY)
    before = os.umask(request.param)
    try:
        home.serve()
    finally:
        os.umask(before)
    yield home
    home.close()


def test_no_path_of_the_data_dir_is_open_to_others(home: Home) -> None:
    home.run("workspace", "add", "edge", str(home.work / "module"))
    home.run("provision", "run", "edge", str(home.work / "play.yml"), "--wait")
    paths = [home.data, *home.data.rglob("*")]
    assert {"jobs", "facts", "inventories", "exocomp.db-wal"} <= {path.name for path in paths}
    # Ansible's fact cache makes its files 0644 itself; the directories around them are closed.
    ours = [path for path in paths if not path.is_symlink() and not (path.is_file() and "facts" in path.parts)]
    found = [(path, path.lstat().st_mode) for path in ours]
    assert [f"{mode:o} {path}" for path, mode in found if stat.S_IMODE(mode) & 0o077] == []
