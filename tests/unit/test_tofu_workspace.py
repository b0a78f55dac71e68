"""Workspaces at the door: what is refused, what the root becomes, and the state that lies in a module."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from exocomp.config import Layout
from exocomp.drivers.tofu import engine, workspace
from exocomp.errors import Conflict, WrongUsage
from exocomp.model import Workspace

STATE = {
    "version": 4,
    "serial": 3,
    "lineage": "l-1",
    "resources": [
        {"mode": "managed", "type": "terraform_data", "name": "x", "instances": [{}, {}]},
        {"mode": "data", "type": "y", "name": "y", "instances": [{}]},
    ],
}
EMPTY = {**STATE, "resources": []}


@pytest.fixture
def module(tmp_path: Path) -> Path:
    module = tmp_path / "infra" / "edge"
    module.mkdir(parents=True)
    (module / "main.tf").write_text('variable "region" {}\n')
    return module


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "data")


def check(module: Path, **more: Any) -> Workspace:
    return workspace.check(Workspace(**{"name": "edge", "directory": str(module), "root": "", **more}))


@pytest.mark.parametrize("name", ["", "Edge", "-a", "_a", "a" * 64, "a b", "a/b", "..", "é", "a\n"])
def test_a_bad_name_is_refused(name: str, module: Path) -> None:
    with pytest.raises(WrongUsage, match="workspace name"):
        check(module, name=name)


@pytest.mark.parametrize("name", ["a", "0", "a" * 63, "edge-eu_1"])
def test_a_good_name_is_taken(name: str, module: Path) -> None:
    assert check(module, name=name).name == name


@pytest.mark.parametrize("directory", ["relative", "/not/there"])
def test_a_directory_that_is_none_is_refused(directory: str) -> None:
    with pytest.raises(WrongUsage, match=directory):
        check(Path(directory))


def test_the_root_is_the_module_the_checkout_or_as_wide_as_its_modules_need(module: Path, tmp_path: Path) -> None:
    assert check(module).root == str(module)
    (module / "main.tf").write_text('module "m" {\n  source = "../shared/net"\n}\n')
    assert check(module).root == str(tmp_path / "infra")
    assert check(module, root=str(module)).root == str(tmp_path / "infra")
    (tmp_path / ".git").mkdir()
    assert check(module).root == str(tmp_path)
    (module / "main.tf").write_text('module "m" {\n  source = "../../../beside"\n}\n')
    assert check(module).root == str(tmp_path.parent)


def test_a_root_that_does_not_contain_the_module_or_is_everything_is_refused(module: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(WrongUsage, match="does not contain"):
        check(module, root=str(tmp_path / "other"))
    with pytest.raises(WrongUsage, match="all of / would be staged"):
        check(module, root="/")


def test_links_in_the_path_are_resolved(module: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "infra")
    found = check(tmp_path / "link" / "edge", root=str(tmp_path / "link"))
    assert (found.directory, found.root) == (str(module), str(tmp_path / "infra"))


def test_variable_files_become_absolute_and_must_be_files(module: Path, tmp_path: Path) -> None:
    (module / "prod.tfvars").touch()
    assert check(module, var_files=("prod.tfvars",)).var_files == (str(module / "prod.tfvars"),)
    os.mkfifo(tmp_path / "fifo")
    for name in ("nope.tfvars", str(module), str(tmp_path / "fifo")):
        with pytest.raises(WrongUsage, match="variable file"):
            check(module, var_files=(name,))


@pytest.mark.parametrize("name", ["regoin", "1x", "a b", "", "a=b"])
def test_a_variable_the_module_does_not_declare_is_refused(name: str, module: Path) -> None:
    with pytest.raises(WrongUsage, match="variable"):
        check(module, variables={name: "x"})
    assert check(module, variables={"region": "x"}).variables == {"region": "x"}


def test_a_local_backend_that_leaves_the_root_is_refused(module: Path) -> None:
    text = 'terraform {\n  backend "local" {\n    path = "%s"\n  }\n}\n'
    (module / "main.tf").write_text(text % "../state/x")
    with pytest.raises(WrongUsage, match="leaves"):
        check(module)
    (module / "main.tf").write_text(text % "/srv/state/x")
    assert not workspace.has_own_state(check(module))


def write_state(path: Path, content: Any = STATE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("content", [EMPTY, "", "  \n"])
def test_a_state_without_resources_is_no_state(content: Any, module: Path) -> None:
    write_state(module / "terraform.tfstate", content)
    assert not workspace.has_own_state(check(module))


@pytest.mark.parametrize("content", ["{", "[]", '"x"', '{"resources": 3}', '{"resources": [{}]}'])
def test_a_broken_state_is_refused_by_name(content: str, module: Path) -> None:
    write_state(module / "terraform.tfstate", content)
    with pytest.raises(WrongUsage, match=r"terraform\.tfstate"):
        workspace.has_own_state(check(module))


@pytest.mark.parametrize("path", ["terraform.tfstate", "terraform.tfstate.d/staging/terraform.tfstate", "foo.state"])
def test_a_state_with_resources_is_adopted_privately_and_counted(path: str, module: Path, layout: Layout) -> None:
    if path == "foo.state":
        (module / "main.tf").write_text('terraform {\n  backend "local" {\n    path = "foo.state"\n  }\n}\n')
    write_state(module / path)
    space = check(module)
    assert workspace.has_own_state(space)
    assert workspace.resource_count(space, layout) == 0
    workspace.adopt_state(space, layout)
    workspace.adopt_state(space, layout)
    own = layout.workspaces / "edge" / "tree" / ("foo.state" if path == "foo.state" else "terraform.tfstate")
    assert json.loads(own.read_text()) == STATE
    assert own.stat().st_mode & 0o777 == 0o600
    if path != "foo.state":  # the module is not copied yet, and tells where its state lies
        assert workspace.resource_count(space, layout) == 2


def test_an_encrypted_state_counts_as_one(module: Path, layout: Layout) -> None:
    write_state(module / "terraform.tfstate", {"encrypted_data": "x", "lineage": "l", "serial": 1})
    space = check(module)
    assert workspace.has_own_state(space)
    workspace.adopt_state(space, layout)
    assert workspace.resource_count(space, layout) is None


def test_another_state_is_never_overwritten(module: Path, layout: Layout) -> None:
    write_state(module / "terraform.tfstate")
    space = check(module)
    ours = write_state(layout.workspaces / "edge" / "tree" / "terraform.tfstate", {**STATE, "lineage": "other"})
    with pytest.raises(Conflict, match="already has a state"):
        workspace.adopt_state(space, layout)
    assert json.loads(ours.read_text())["lineage"] == "other"


def test_several_states_are_not_chosen_from(module: Path, layout: Layout) -> None:
    write_state(module / "terraform.tfstate")
    write_state(module / "terraform.tfstate.d" / "a" / "terraform.tfstate")
    with pytest.raises(WrongUsage, match="several state files"):
        workspace.adopt_state(check(module), layout)


def test_with_a_remote_backend_local_leftovers_are_no_state(module: Path, layout: Layout) -> None:
    (module / "main.tf").write_text('terraform { backend "s3" {} }')
    write_state(module / "terraform.tfstate")
    space = check(module)
    assert not workspace.has_own_state(space)
    write_state(
        layout.workspaces / "edge" / "engine" / "terraform.tfstate", {"backend": {"type": "s3", "config": {}}}
    )
    assert workspace.resource_count(space, layout) is None


def executable(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_tofu_is_preferred_and_a_name_is_obeyed(tmp_path: Path, monkeypatch: Any) -> None:
    executable(tmp_path / "terraform", 'echo "Terraform v1.11.4"; echo "on linux_amd64"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert engine.find("terraform").product == "terraform"
    executable(tmp_path / "tofu", 'echo "[command]wrapped"; echo "OpenTofu v1.9.0-rc1"; echo noise >&2')
    found = engine.find(None)
    assert (found.path, found.product, found.version) == (str(tmp_path / "tofu"), "tofu", "1.9.0-rc1")
    assert engine.find(str(tmp_path / "terraform")).version == "1.11.4"


@pytest.mark.parametrize("wanted", [None, "tofu", "terraform"])
def test_no_engine_says_how_to_get_one(wanted: str | None, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WrongUsage, match="on PATH") as caught:
        engine.find(wanted)
    assert "install OpenTofu" in caught.value.hint


def test_an_engine_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    failing = executable(tmp_path / "failing", "echo broken >&2; exit 3")
    other = executable(tmp_path / "other", "echo Pulumi v3")
    for wanted, said in (
        ("pulumi", "neither"),
        (str(tmp_path / "none"), "not an executable"),
        (str(tmp_path / "plain"), "not an executable"),
        (str(tmp_path), "not an executable"),
        (str(failing), "exit 3: broken"),
        (str(other), "does not say its version"),
    ):
        with pytest.raises(WrongUsage, match=said):
            engine.find(wanted)
