# ruff: noqa: F811
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import cli_converging as s
import cli_views as v
import pytest
from cli_runs import PLAY, Ledger, Run, home, ledger, run  # noqa: F401
from msgspec.structs import replace

from exocomp.cli import host_views, output
from exocomp.cli.render import moment
from exocomp.errors import NotFound
from exocomp.model import Generation
from exocomp.protocol import commands as c
from exocomp.protocol import converging as g
from exocomp.protocol import queries as q

AT = moment(v.AT)


def test_the_list_tells_how_far_each_host_has_come(run: Run, ledger: Ledger) -> None:
    far = s.host(
        onboarded_at=v.AT, converged_at=v.AT, playbook="/srv/site.yml", source="0123456789abcdef", changed_at=v.AT
    )
    new = s.host(host=replace(v.HOST, name="web2", port=22), pins=(), unreachable=3, shared_with=("tf:other",))
    here = s.host(host=s.LOCAL, pins=())
    ledger.answers[g.ListHosts] = g.Hosts(hosts=(far, new, here))
    head, one, two, shared, local = run("host", "list", "--inventory", "tf:edge")[1].splitlines()
    assert head.split() == list(host_views.HEAD)
    assert re.split(" {2,}", one) == [
        *("web1", "tf:edge", "203.0.113.5 port 2222", f"tofu {AT}", AT, f"{AT} site.yml 0123456789ab", AT),
    ]
    assert two.split()[:4] == ["web2", "tf:edge", "203.0.113.5", "no"]
    assert two.endswith("3 in a row")
    assert shared == "    also in tf:other"
    assert local.split() == ["here", "tf:edge", "local"]
    assert ledger.asked == [g.ListHosts(inventory="tf:edge")]
    assert json.loads(run("host", "list", "--json")[1])["hosts"][1]["unreachable"] == 3


def test_in_colour_a_host_out_of_reach_is_red() -> None:
    table = host_views.host_rows((s.host(unreachable=2), s.host()), width=None, color=True)
    assert table.count("\x1b[31m") == 1
    assert "\x1b[31m2 in a row" in table


def test_show_tells_all_that_is_known_in_each_inventory(run: Run, ledger: Ledger) -> None:
    first = s.host(converged_at=v.AT, converged_by=v.WF, playbook="/srv/site.yml", source="00" * 32, unreachable=1)
    ledger.answers[g.ShowHost] = g.Hosts(hosts=(first, s.host(inventory="lab", host=s.LOCAL, pins=())))
    out = run("host", "show", "web1")[1]
    one, other = out.split("\n\n")
    assert f"pinned      ssh-ed25519 SHA256:abc tofu {AT}" in one
    assert f"converged   {AT} by {v.WF}" in one
    assert "onboarded   never" in one
    assert "00" * 32 in one
    assert one.endswith("unreachable in its last 1 play(s)")
    assert "pinned" not in other
    assert "port" not in other
    assert len(json.loads(run("host", "show", "web1", "--json")[1])["hosts"]) == 2


def test_a_local_host_has_no_port(run: Run, ledger: Ledger, home: Path) -> None:
    def shown(query: q.ShowInventory) -> q.InventoryView:
        return v.inventory("/x", number=query.generation or 2, hosts=(s.LOCAL,) if query.generation is None else ())

    ledger.answers[q.ShowInventory] = shown
    assert run("inventory", "show", "lab", "--hosts")[1].splitlines()[1].split() == ["here", "here", "local"]
    assert run("inventory", "diff", "lab")[1].splitlines()[1] == "+ here here local"


def test_an_inventory_of_ones_own_is_added_by_its_absolute_path(run: Run, ledger: Ledger, home: Path) -> None:
    assert run("inventory", "add", "lab", PLAY) == (0, "done\n", "")
    assert ledger.said == [c.AddInventory(name="lab", file=str(home / PLAY))]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["inventory", "add", "tf:edge", PLAY], "exocomp workspace apply edge"),
        (["inventory", "add", "a b", PLAY], "'a b'"),
        (["inventory", "add", "lab", "none"], "none"),
        (["inventory", "add", "lab", "."], "directory"),
        (["inventory", "add", "lab"], "requires an argument"),
        (["inventory", "remove", "lab"], "--yes"),
    ],
)
def test_what_is_no_inventory_to_add_or_remove_is_named(
    run: Run, ledger: Ledger, argv: list[str], words: str
) -> None:
    code, _, err = run(*argv)
    assert code == 2
    assert words in err
    assert ledger.said == []


def test_removing_an_inventory_asks(run: Run, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("inventory", "remove", "lab", "--force", "--yes")[0] == 0
    monkeypatch.setattr(output, "confirm", lambda question, *, yes: False)
    assert run("inventory", "remove", "lab")[0] == 1
    assert ledger.said == [c.RemoveInventory(name="lab", force=True)]


def test_whoever_names_a_workspace_is_told_the_name_of_its_inventory(run: Run, ledger: Ledger) -> None:
    def absent(query: Any) -> Any:
        raise NotFound(f"no inventory {query.name!r}", hint="see `exocomp inventory list`")

    ledger.answers = {
        q.ShowInventory: absent,
        q.ListInventories: q.Inventories(inventories=(v.inventory("/x"),)),
    }
    code, _, err = run("inventory", "show", "edge")
    assert code == 5
    assert "exocomp inventory show tf:edge" in err
    assert "exocomp inventory list" in run("inventory", "show", "nope")[2]


def test_the_content_of_ones_own_inventory_may_be_yaml_and_is_masked(run: Run, ledger: Ledger, home: Path) -> None:
    (home / "2.yml").write_text("all: {hosts: {web1: {1: 2026-01-31, db_password: hunter2, key: !vault x}}}")
    ledger.answers[q.ShowInventory] = v.inventory(str(home / "2.yml"))
    out = run("inventory", "show", "lab")[1]
    assert '"1": "2026-01-31"' in out
    assert "hunter2" not in out


def test_an_inventory_that_is_altered_says_how_to_mend_it(run: Run, ledger: Ledger) -> None:
    current = Generation(inventory="lab", number=1, path="/x", digest="00", hosts=(), created_at=v.AT)
    lab = q.InventoryView(name="lab", file="/d/lab", current=current, generations=(1,), sound=False)
    ledger.answers[q.ListInventories] = q.Inventories(
        inventories=(lab, replace(v.inventory("/x"), sound=False)),
    )
    out = run("inventory", "list")[1]
    assert "exocomp inventory add lab <file>" in out
    assert "exocomp workspace apply edge" in out
