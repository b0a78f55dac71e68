"""What a saved plan says, as `show -json` prints it: read whole, or refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from exocomp.approval import Change
from exocomp.drivers.tofu import marks, order, proposal
from exocomp.errors import ExocompError


def attempt(tmp_path: Path, shown: Any) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / order.PLAN).write_bytes(b"a plan")
    (tmp_path / order.SHOWN).write_text(shown if isinstance(shown, str) else json.dumps(shown))
    return tmp_path


def change(*actions: str, address: str = "r.a", **more: Any) -> dict[str, Any]:
    top = {key: more.pop(key) for key in ("deposed", "previous_address") if key in more}
    return {"address": address, "change": {"actions": list(actions), **more}, **top}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (change("create"), [("r.a", "create")]),
        (change("update"), [("r.a", "update")]),
        (change("delete"), [("r.a", "delete")]),
        (change("delete", "create"), [("r.a", "replace")]),
        (change("create", "delete"), [("r.a", "replace")]),
        (change("forget"), [("r.a", "forget")]),
        (change("create", "forget"), [("r.a", "create")]),
        (change("no-op"), []),
        (change("read"), []),
        (change("no-op", importing={"id": "i"}), [("r.a", "import")]),
        (change("no-op", previous_address="r.b"), [("r.a", "move")]),
        (change("delete", deposed="1a2b"), [("r.a (deposed 1a2b)", "delete")]),
        (change("create", address='r.a["\x1b[31m\n"]'), [('r.a["\n"]', "create")]),
    ],
)
def test_every_action_of_a_plan_is_named(tmp_path: Path, found: dict[str, Any], told: list[Any]) -> None:
    asked = proposal.read(attempt(tmp_path, {"resource_changes": [found]}), tmp_path / "kept")
    assert [(each.name, each.action) for each in asked.changes] == told


@pytest.mark.parametrize(
    "shown",
    [
        {"resource_changes": [change("explode")]},
        {"resource_changes": [change()]},
        {"resource_changes": [{"address": "r.a"}]},
        {"errored": True, "resource_changes": []},
        {"resource_changes": None},
        [],
        "",
        '{"resource_changes": [',
        "[" * 100_000,
    ],
)
def test_what_cannot_be_shown_cannot_be_asked(tmp_path: Path, shown: Any) -> None:
    with pytest.raises(ExocompError, match="can't be shown"):
        proposal.read(attempt(tmp_path, shown), tmp_path / "kept")


def test_a_plan_that_is_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    made = attempt(tmp_path, {})
    (made / order.PLAN).unlink()
    (made / order.PLAN).symlink_to("/etc/passwd")
    with pytest.raises(ExocompError, match="can't be shown"):
        proposal.read(made, tmp_path / "kept")
    (made / order.PLAN).unlink()
    os.mkfifo(made / order.PLAN)
    with pytest.raises(ExocompError, match="can't be shown"):
        proposal.read(made, tmp_path / "kept")


def groups(*hosts: str) -> dict[str, Any]:
    return {"all": {"children": {"web": {"hosts": {host: {"ansible_host": "192.0.2.1"} for host in hosts}}}}}


@pytest.mark.parametrize(
    ("output", "joins", "leaves", "known"),
    [
        ({"actions": ["create"], "before": None, "after": groups("a", "b")}, ("a", "b"), (), True),
        ({"actions": ["update"], "before": groups("a", "b"), "after": groups("b", "c")}, ("c",), ("a",), True),
        ({"actions": ["delete"], "before": groups("a"), "after": None}, (), ("a",), True),
        (
            {
                "actions": ["create"],
                "after": groups(),
                "after_unknown": {"all": {"children": {"web": {"hosts": {"a": {"ansible_host": True}}}}}},
            },
            ("a",),
            (),
            True,
        ),
        ({"actions": ["create"], "after_unknown": True}, (), (), False),
        ({"actions": ["create"], "after": {}, "after_unknown": {"all": {"hosts": True}}}, (), (), False),
        ({"actions": ["update"], "before_sensitive": True, "after_sensitive": True}, (), (), False),
    ],
)
def test_the_hosts_that_join_and_leave_are_told_as_far_as_the_plan_knows(
    tmp_path: Path, output: dict[str, Any], joins: tuple[str, ...], leaves: tuple[str, ...], known: bool
) -> None:
    shown = {"output_changes": {"ansible_inventory": output}}
    asked = proposal.read(attempt(tmp_path, shown), tmp_path / "kept")
    assert (asked.joins, asked.leaves, asked.hosts_known) == (joins, leaves, known)


def test_values_of_outputs_are_not_part_of_the_question(tmp_path: Path) -> None:
    shown = {"output_changes": {"password": {"actions": ["update"], "before": "hunter1", "after": "hunter2"}}}
    asked = proposal.read(attempt(tmp_path, shown), tmp_path / "kept")
    assert asked.outputs == (Change(name="password", action="update"),)
    assert "hunter" not in repr(asked)


@pytest.mark.parametrize(
    ("actions", "code"),
    [
        (["create"], 0),
        (["update"], 0),
        (["no-op"], 0),
        (["delete"], marks.CLOSED),
        (["delete", "create"], marks.CLOSED),
    ],
)
def test_the_gate_closes_before_what_destroys(tmp_path: Path, actions: list[str], code: int) -> None:
    shown = attempt(tmp_path, {"resource_changes": [change("create"), change(*actions)]}) / order.SHOWN
    assert marks.main(["gate", str(shown)]) == code
