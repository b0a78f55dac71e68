# ruff: noqa: F811
from __future__ import annotations

import json
from pathlib import Path

import cli_views as v
import pytest
from cli_runs import PLAY, Ledger, Run, home, ledger, run  # noqa: F401

from exocomp.cli import doing, logs
from exocomp.cli.options import COMMON
from exocomp.model import Host, RunState
from exocomp.protocol import commands as c
from exocomp.protocol import events as e
from exocomp.protocol import queries as q


def test_run_says_the_whole_order_and_prints_only_the_id(run: Run, ledger: Ledger, home: Path) -> None:
    ledger.replies[c.StartWorkflow] = c.Started(workflow=v.WF)
    (home / "key").write_text("")
    code, out, err = run(
        *("provision", "run", "edge", PLAY, "--ssh-wait", "1h30m", "--limit", "web*", "--tags", "a,b", "--check"),
        *(
            "--extra-vars",
            '{"a": "b c"}',
            "--ssh-identity",
            "key",
            "--ssh-identity",
            PLAY,
            "--onboard-playbook",
            PLAY,
        ),
    )
    assert (code, out) == (0, f"{v.WF}\n")
    assert f"exocomp provision watch {v.WF}" in err
    (said,) = ledger.said
    assert (said.kind, said.workspace, said.playbook) == ("provision", "edge", str(home / PLAY))
    assert said.options.ssh_wait_s == 5400
    assert said.options.extra_vars == {"a": "b c"}
    assert said.options.ssh_identities == (str(home / "key"), str(home / PLAY))
    assert said.options.onboard_playbook == str(home / PLAY)
    assert (said.options.limit, said.options.tags, said.options.check) == ("web*", "a,b", True)


def test_json_is_one_document_on_stdout(run: Run, ledger: Ledger) -> None:
    ledger.replies[c.StartWorkflow] = c.Started(workflow=v.WF)
    for flags in (["--json"], ["--output", "json"], ["--output=json"]):
        code, out, err = run("handoff", "run", "edge", PLAY, *flags)
        assert (code, json.loads(out), err) == (0, {"type": "started", "workflow": v.WF}, "")
        assert json.loads(run(*flags, "handoff", "run", "edge", PLAY)[1])["workflow"] == v.WF


def test_the_latest_to_be_read_or_run_again_is_a_chain_and_not_a_plan(
    run: Run, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.answers[q.ShowWorkflow] = v.ENDED
    ledger.replies[c.RetryWorkflow] = c.Started(workflow=v.WF)
    monkeypatch.setattr(doing, "ask", lambda common, query: ledger.ask(common, query, q.WorkflowView))
    chains = q.ShowWorkflow(id="latest", kinds=("provision", "handoff"))
    assert run("provision", "retry")[0] == 0
    assert run("provision", "cancel", "latest")[0] == 0
    assert ledger.asked == [chains, chains]
    assert ledger.said == [c.RetryWorkflow(id=v.WF), c.CancelWorkflow(id=v.WF)]


def test_status_defaults_to_the_latest_of_its_kind(run: Run, ledger: Ledger) -> None:
    ledger.answers[q.ShowWorkflow] = v.ENDED
    for noun in ("provision", "handoff"):
        code, out, _ = run(noun, "status")
        assert code == 0
        assert [line.split()[0] for line in out.splitlines()[4:]] == ["apply", "wait", "onboard", "configure"]
        assert ledger.asked[-1] == q.ShowWorkflow(id="latest", kinds=(noun,))
    run("provision", "status", "0abcd")
    assert ledger.asked[-1] == q.ShowWorkflow(id="0abcd")
    assert json.loads(run("provision", "status", "--json")[1])["steps"][0]["step"]["name"] == "apply"


def test_lists_are_tables_and_json(run: Run, ledger: Ledger) -> None:
    ledger.answers = {
        q.ListWorkflows: q.Workflows(workflows=(v.ENDED, v.RUNNING)),
        q.ListJobs: q.Jobs(jobs=(v.job_view("/d").job,)),
        q.ListWorkspaces: q.Workspaces(
            workspaces=(
                q.WorkspaceView(workspace=v.SPACE, hosts=1, generation=2, last_apply=v.flow(RunState.FAILED)),
            )
        ),
        q.ListInventories: q.Inventories(inventories=(v.inventory("/x"),)),
        q.ListPins: q.Pins(pins=(v.PIN,)),
    }
    for argv, word in (
        (("provision", "list"), v.WF),
        (("job", "list", "--workflow", "x"), "job_apply"),
        (("workspace", "list"), "edge"),
        (("inventory", "list"), "tf:edge"),
        (("host", "known-hosts"), "[203.0.113.5]:2222"),
        (("host", "known-hosts", "list"), "SHA256:abc"),
        (("host", "known-hosts", "show", "web1"), "ssh-ed25519"),
    ):
        code, out, _ = run(*argv)
        assert code == 0
        assert word in out
        assert word in run(*argv, "--json")[1]


def test_show_commands_tell_one_thing(run: Run, ledger: Ledger, home: Path) -> None:
    (home / "inv.json").write_text('{"all": {"hosts": {"web1": {"ansible_password": "hunter2"}}}}')
    ledger.answers = {
        q.ShowJob: v.job_view("/d"),
        q.ShowWorkspace: q.WorkspaceView(workspace=v.SPACE, hosts=None, generation=None, last_apply=None),
        q.ShowInventory: v.inventory(str(home / "inv.json")),
    }
    assert "ok=2" in run("job", "show", "job_apply")[1]
    assert "none yet" in run("workspace", "show", "edge")[1]
    out = run("inventory", "show", "tf:edge")[1]
    assert "generation  2 of 1, 2" in out
    assert "hunter2" not in out
    assert run("inventory", "show", "tf:edge", "--hosts")[1].splitlines()[1].split() == [
        *("web1", "203.0.113.5", "2222", "root", "ssh"),
    ]


def test_outputs_are_the_group_vars_of_a_hostless_inventory(run: Run, ledger: Ledger, home: Path) -> None:
    variables = {"region": "eu", "note": {"__ansible_unsafe": "{{ x }}"}, "db_password": "hunter2"}
    (home / "inv.json").write_text(json.dumps({"all": {"vars": variables}}))
    ledger.answers = {
        q.ShowWorkspace: q.WorkspaceView(workspace=v.SPACE, hosts=0, generation=1, last_apply=None),
        q.ShowInventory: v.inventory(str(home / "inv.json"), hosts=()),
    }
    code, out, _ = run("workspace", "outputs", "edge")
    assert (code, out) == (0, 'region = "eu"\nnote = "{{ x }}"\ndb_password = "********"\n')


def test_diff_compares_with_the_generation_before(run: Run, ledger: Ledger) -> None:
    other = Host(name="web2", address="203.0.113.6")

    def show(query: q.ShowInventory) -> q.InventoryView:
        return v.inventory("/x", number=query.generation or 2, hosts=(other,) if query.generation == 1 else (v.HOST,))

    ledger.answers[q.ShowInventory] = show
    assert run("inventory", "diff", "tf:edge")[1].splitlines() == [
        "tf:edge generation 1 → 2",
        "+ web1 root@203.0.113.5 port 2222",
        "- web2 203.0.113.6 port 22",
    ]


def test_logs_are_read_from_the_attempts_directory(run: Run, ledger: Ledger, home: Path) -> None:
    (home / "1").mkdir()
    (home / "1" / "log").write_bytes(b"one\x1b[31m\r\ntwo \xff\n" + b"x" * 5)
    view = v.job_view(str(home / "1"), kind="probe", name="wait")
    ledger.answers = {q.ShowJob: view, q.ShowWorkflow: v.ledger("succeeded", "running", *["blocked"] * 3)}
    assert run("job", "logs", "wait") == (0, "one\\x1b[31m\ntwo \ufffd\nxxxxx\n", "")
    assert run("provision", "logs", "--step", "2")[1].splitlines()[0] == "--- wait job_wait"
    assert q.ShowWorkflow(id="latest", kinds=("provision", "handoff")) in ledger.asked
    assert [json.loads(line)["line"] for line in run("job", "logs", "wait", "--json")[1].splitlines()][
        1
    ] == "two \ufffd"
    assert run("job", "logs", "wait", "--attempt", "7")[0] == 5
    assert run("provision", "logs", "--step", "9")[0] == 5


def test_a_closed_pipe_is_not_mistaken_for_a_log_that_cannot_be_read(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*words: object, **options: object) -> None:
        raise BrokenPipeError

    (home / "log").write_text("one\n")
    monkeypatch.setattr("builtins.print", closed)
    with pytest.raises(BrokenPipeError):
        logs.print_job(COMMON, v.job_view(str(home)), None, raw=True)


def test_a_job_without_a_log_says_where_to_look(run: Run, ledger: Ledger, home: Path) -> None:
    ledger.answers[q.ShowJob] = v.job_view(str(home / "none"))
    code, _, err = run("job", "logs", "x")
    assert code == 5
    assert "exocomp job show" in err


def test_cancelling_a_job_cancels_its_workflow(run: Run, ledger: Ledger) -> None:
    ledger.answers[q.ShowJob] = v.job_view("/d")
    assert run("job", "cancel", "job_apply")[:2] == (0, "done\n")
    assert ledger.said == [c.CancelWorkflow(id=v.WF)]


def test_events_are_paged_until_the_end(run: Run, ledger: Ledger) -> None:
    def page(query: q.ListEvents) -> q.Events:
        numbers = range(query.since + 1, min(query.since + query.limit, 1500) + 1)
        return q.Events(events=tuple(e.Recorded(seq=n, at=v.AT, event=e.PinForgotten(name="w")) for n in numbers))

    ledger.answers[q.ListEvents] = page
    lines = run("events", "--json")[1].splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 1501))
    assert json.loads(lines[0])["event"]["type"] == "pin_forgotten"
    assert run("events", "--since", "1498")[1].count("\n") == 2


def test_a_workspace_is_registered_with_absolute_paths(run: Run, ledger: Ledger, home: Path) -> None:
    assert run("workspace", "add", "edge", ".", "--var", "a=b", "--var", "c=d", "--var-file", PLAY)[0] == 0
    (said,) = ledger.said
    assert (said.workspace.directory, said.workspace.root) == (str(home), "")
    assert said.workspace.variables == {"a": "b", "c": "d"}
    assert said.workspace.var_files == (str(home / PLAY),)


def test_workspace_verbs_start_their_chain(run: Run, ledger: Ledger) -> None:
    ledger.replies[c.StartWorkflow] = c.Started(workflow=v.WF)
    for verb in (["plan"], ["apply"], ["destroy", "--yes"]):
        assert run("workspace", verb[0], "edge", *verb[1:])[0] == 0
    assert [said.kind for said in ledger.said] == ["plan", "apply", "destroy"]


def test_config_show_names_the_origin_of_each_value(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXOCOMP_WORKERS", "3")
    found = json.loads(run("config", "show", "--json", "--socket", "s")[1])
    assert found["workers"] == {"value": 3, "origin": "environment"}
    assert found["socket"] == {"value": str(home / "s"), "origin": "flag"}
    assert found["engine"]["origin"] == "default"
    (home / "config.toml").write_text("nope = 1")
    assert run("config", "show")[0] == 2
