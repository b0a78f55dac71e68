"""Staging: copies that are content-addressed, read-only, whole, and never of more than the tree."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from exocomp import staging
from exocomp.errors import Conflict, WrongUsage

MIB = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "roles" / "web").mkdir(parents=True)
    (root / "site.yml").write_text("- hosts: all\n")
    (root / "roles" / "web" / "run.sh").write_text("#!/bin/sh\n")
    (root / "roles" / "web" / "run.sh").chmod(0o755)
    return root


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "data" / "stage"


def test_the_copy_has_the_content_and_is_read_only(root: Path, into: Path) -> None:
    staged = staging.stage(root, into, MIB)
    assert staged.path == into / staged.digest[:16]
    assert (staged.path / "site.yml").read_text() == "- hosts: all\n"
    assert (staged.path / "site.yml").stat().st_mode & 0o777 == 0o400
    assert (staged.path / "roles" / "web" / "run.sh").stat().st_mode & 0o777 == 0o500
    assert staged.path.stat().st_mode & 0o777 == 0o500
    assert staged.commit is None


def test_the_same_content_is_the_same_copy_wherever_it_lies(root: Path, into: Path, tmp_path: Path) -> None:
    first = staging.stage(root, into, MIB)
    subprocess.run(["cp", "-r", str(root), str(tmp_path / "other")], check=True)
    assert staging.stage(tmp_path / "other", into, MIB) == first


def test_a_change_makes_a_new_copy_and_leaves_the_old(root: Path, into: Path) -> None:
    first = staging.stage(root, into, MIB)
    (root / "site.yml").write_text("- hosts: web\n")
    second = staging.stage(root, into, MIB)
    assert second.digest != first.digest
    assert (first.path / "site.yml").read_text() == "- hosts: all\n"
    assert (second.path / "site.yml").read_text() == "- hosts: web\n"


@pytest.mark.parametrize("change", ["mode", "name", "link", "empty directory"])
def test_what_is_not_content_counts_too(change: str, root: Path, into: Path) -> None:
    first = staging.stage(root, into, MIB)
    match change:
        case "mode":
            (root / "site.yml").chmod(0o755)
        case "name":
            (root / "site.yml").rename(root / "main.yml")
        case "link":
            (root / "link").symlink_to("site.yml")
        case _:
            (root / "files").mkdir()
    assert staging.stage(root, into, MIB).digest != first.digest


def test_an_unchanged_tree_is_not_read_again(root: Path, into: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(staging, "_SETTLED_S", -60.0)
    first = staging.stage(root, into, MIB)

    def refuse(*_: object) -> None:
        raise AssertionError("a file was read again")

    monkeypatch.setattr("hashlib.file_digest", refuse)
    assert staging.stage(root, into, MIB) == first


def test_a_stamp_that_is_too_young_is_not_trusted(root: Path, into: Path) -> None:
    staging.stage(root, into, MIB)
    file = root / "site.yml"
    before = file.stat()
    with file.open("r+") as stream:  # same inode, same size
        stream.write("- hosts: web")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (staging.stage(root, into, MIB).path / "site.yml").read_text() == "- hosts: web\n"


def test_a_change_that_puts_size_and_mtime_back_is_seen(root: Path, into: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(staging, "_SETTLED_S", -60.0)
    staging.stage(root, into, MIB)
    file = root / "site.yml"
    before = file.stat()
    time.sleep(0.02)  # one tick of the file system's clock: ctime moves
    file.write_text("- hosts: web\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (staging.stage(root, into, MIB).path / "site.yml").read_text() == "- hosts: web\n"


def test_damaged_stamps_are_no_obstacle(root: Path, into: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(staging, "_SETTLED_S", -60.0)
    first = staging.stage(root, into, MIB)
    (stamps,) = (into / ".stamps").iterdir()
    for damage in ("{", "[]", "null", "3"):
        stamps.write_text(damage)
        assert staging.stage(root, into, MIB) == first


@pytest.mark.parametrize(
    "name", [".git", ".terraform", "__pycache__", ".venv", "node_modules", "terraform.tfstate.d"]
)
def test_caches_and_state_are_left_out(name: str, root: Path, into: Path) -> None:
    (root / name).mkdir()
    (root / name / "x").write_text("x")
    for state in ("terraform.tfstate", "terraform.tfstate.backup", ".terraform.tfstate.lock.info"):
        (root / state).write_text("{}")
    (root / "remote.tfstate.tf").write_text("")
    staged = staging.stage(root, into, MIB)
    assert {path.name for path in staged.path.iterdir()} == {"site.yml", "roles", "remote.tfstate.tf"}


def test_a_link_that_stays_inside_is_kept_even_when_absolute(root: Path, into: Path) -> None:
    (root / "relative").symlink_to("roles/web")
    (root / "roles" / "absolute.yml").symlink_to(root / "site.yml")
    (root / "roles" / "round").symlink_to("../../project/site.yml")
    (root / "dangling").symlink_to("not-there")
    (root / "loop").symlink_to("loop")
    staged = staging.stage(root, into, MIB)
    for name in ("roles/absolute.yml", "roles/round"):
        assert (staged.path / name).resolve() == staged.path / "site.yml"
    assert (staged.path / "relative").resolve() == staged.path / "roles" / "web"
    assert os.readlink(staged.path / "dangling") == "not-there"


@pytest.mark.parametrize("target", ["/etc/hostname", "../outside", "roles/../../outside", "/"])
def test_a_link_that_leaves_the_tree_is_refused_by_name(target: str, root: Path, into: Path) -> None:
    (root / "escape").symlink_to(target)
    with pytest.raises(WrongUsage, match="escape is a link to"):
        staging.stage(root, into, MIB)
    assert [path.name for path in into.iterdir() if path.name != ".stamps"] == []


def test_a_sibling_with_the_same_prefix_is_outside(root: Path, into: Path) -> None:
    (root.parent / "project-secret").mkdir()
    (root / "escape").symlink_to("../project-secret")
    with pytest.raises(WrongUsage, match="escape"):
        staging.stage(root, into, MIB)


def test_sockets_and_fifos_are_skipped_by_name(root: Path, into: Path, monkeypatch: Any) -> None:
    os.mkfifo(root / "fifo")
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        staged = staging.stage(root, into, MIB)
    assert set(staged.skipped) == {"fifo", "socket"}
    assert {path.name for path in staged.path.iterdir()} == {"site.yml", "roles"}


def test_too_much_is_refused_with_the_cap_and_what_to_do(root: Path, into: Path) -> None:
    (root / "image.img").write_bytes(b"x" * (2 * MIB))
    with pytest.raises(WrongUsage, match="more than 1 MiB") as caught:
        staging.stage(root, into, MIB)
    assert "stage_limit_mib" in caught.value.hint


def test_the_data_dir_inside_the_project_is_never_copied(root: Path) -> None:
    into = root / "state" / "exocomp" / "stage"
    into.mkdir(parents=True)
    (into.parent / "exocomp.db").write_text("secret")
    first = staging.stage(root, into, MIB)
    assert staging.stage(root, into, MIB).digest == first.digest
    assert not (first.path / "state" / "exocomp").exists()


def test_a_tree_that_keeps_changing_is_a_conflict(root: Path, into: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(staging, "copy_file", lambda *_: False)
    with pytest.raises(Conflict, match="keeps changing"):
        staging.stage(root, into, MIB)
    assert [path.name for path in into.iterdir() if path.name != ".stamps"] == []


def test_a_copy_that_somebody_else_finished_first_is_taken(root: Path, into: Path, monkeypatch: Any) -> None:
    rename = os.rename

    def overtaken(source: str, target: str) -> None:
        if Path(target).parent == into:
            subprocess.run(["cp", "-r", str(source), str(target)], check=True)
        rename(source, target)

    monkeypatch.setattr(os, "rename", overtaken)
    staged = staging.stage(root, into, MIB)
    assert (staged.path / "site.yml").exists()
    assert {path.name for path in into.iterdir()} <= {".stamps", staged.path.name}


def test_names_that_are_not_utf8_are_kept(root: Path, into: Path) -> None:
    name = os.fsdecode(b"caf\xe9 \xff.yml")
    (root / name).write_text("x")
    (root / "日本 \n.yml").write_text("y")
    staged = staging.stage(root, into, MIB)
    assert (staged.path / name).read_text() == "x"
    assert (staged.path / "日本 \n.yml").read_text() == "y"


def git(directory: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.test", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_commit_is_what_git_says(root: Path, into: Path, tmp_path: Path) -> None:
    git(root, "init", "-q")
    assert staging.stage(root, into, MIB).commit is None
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    head = git(root, "rev-parse", "HEAD")
    assert staging.stage(root / "roles", into, MIB).commit == head
    git(root, "pack-refs", "--all")
    assert staging.head_commit(root) == head
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert staging.head_commit(tmp_path / "tree") == head
    git(root, "checkout", "-q", "--detach")
    assert staging.head_commit(root) == head


def test_the_root_of_a_playbook(tmp_path: Path) -> None:
    plain, configured, roles = (tmp_path / name for name in ("plain", "configured", "roled"))
    for top in (plain, configured, roles):
        (top / "plays" / "deep").mkdir(parents=True)
        (top / "plays" / "deep" / "site.yml").touch()
    (configured / "ansible.cfg").touch()
    (roles / "plays" / "roles").mkdir()
    playbook = Path("plays/deep/site.yml")
    assert staging.project_root(plain / playbook) == plain / "plays" / "deep"
    assert staging.project_root(configured / playbook) == configured
    assert staging.project_root(roles / playbook) == roles / "plays"
    git(configured / "plays", "init", "-q")
    assert staging.project_root(configured / playbook) == configured / "plays"
    (plain / "link.yml").symlink_to(configured / playbook)
    assert staging.project_root(plain / "link.yml") == configured / "plays"
