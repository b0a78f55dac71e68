"""A ledger of an earlier release: what it held is kept, and what is new works in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from exocomp.errors import Conflict
from exocomp.model import Host, Rule, RunState, Schedule, Work, Workspace
from exocomp.protocol import events as e
from exocomp.protocol.queries import HostResult
from exocomp.store import events, hosts, jobs, rules, schedules, steps, targets, workflows, workspaces
from exocomp.store.migrate import migrations
from exocomp.store.store import open_reader, open_writer

WEB = Host(name="web1", address="192.0.2.1")
WORK = Work(kind="play", target="tf:edge", playbook="/srv/site.yml")
PROBE = '{"type":"probe","hosts":[],"timeout_s":1}'


def old_store(path: Path) -> None:
    """Schema 2, as the release that made it left it: a workspace's chain that ended, and an inventory."""
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    for number, sql in migrations():
        if number <= 2:
            with db:
                db.execute(sql).fetchall()
                db.execute(f"PRAGMA user_version = {number}").fetchall()
    space = msgspec.json.encode(Workspace(name="edge", directory="/m", root="/m")).decode()
    named = msgspec.json.encode((WEB,)).decode()
    ended = e.WorkflowEnded(workflow="wf_old", workspace="edge", state=RunState.SUCCEEDED)
    rows: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("workspace (name, spec, created_at)", ("edge", space, 1.0)),
        (
            "workflow (id, kind, workspace, playbook, options, state, generation, created_at, ended_at)",
            ("wf_old", "provision", "edge", "/p.yml", '{"limit":"web*"}', "succeeded", 1, 2.0, 3.0),
        ),
        (
            "workflow (id, kind, workspace, playbook, options, state, created_at)",
            ("wf_rot", "rotate", None, None, "{}", "running", 2.5),
        ),
        (
            "step (workflow, position, name, stage, state, job)",
            ("wf_old", 0, "configure", "configure", "succeeded", "job_old"),
        ),
        (
            "job (id, workflow, step, kind, spec, state, attempt, created_at, ended_at)",
            (
                "job_old",
                "wf_old",
                "configure",
                "probe",
                '{"type":"probe","hosts":[],"timeout_s":1}',
                "succeeded",
                1,
                2.0,
                3.0,
            ),
        ),
        (
            "attempt (job, number, state, started_at, ended_at, exit_code, tier, source)",
            ("job_old", 1, "finished", 2.0, 3.0, 0, "degraded", "d1"),
        ),
        ("host_result (job, host, outcome, ok)", ("job_old", "web1", "ok", 3)),
        ("inventory (name, workspace, standing, number)", ("tf:edge", "edge", "/x/edge.json", 1)),
        (
            "generation (inventory, number, path, digest, hosts, created_at, workflow)",
            ("tf:edge", 1, "/x/1", "d", named, 2.0, "wf_old"),
        ),
        (
            "pin (name, key_type, key, fingerprint, trust, pinned_at)",
            ("192.0.2.1", "ssh-ed25519", "AAAA", "SHA256:x", "tofu", 2.0),
        ),
        (
            "event (at, type, workflow, workspace, body)",
            (3.0, "workflow_ended", "wf_old", "edge", msgspec.json.encode(ended).decode()),
        ),
    )
    for into, values in rows:
        db.execute(f"INSERT INTO {into} VALUES ({', '.join('?' * len(values))})", values).fetchall()
    db.close()


def test_a_ledger_of_an_earlier_release_keeps_its_rows_and_learns_what_its_workflows_ran_over(tmp_path: Path) -> None:
    path = tmp_path / "exocomp.db"
    old_store(path)
    with pytest.raises(Conflict, match="has schema 2, this exocomp reads"):
        open_reader(path)
    store = open_writer(path, now=lambda: 10.0)
    try:
        assert store.db.pragma("user_version") == migrations()[-1][0]
        assert workspaces.get(store, "edge").directory == "/m"
        old = workflows.get(store, "wf_old")
        assert (old.inventory, old.key, old.origin, old.options.limit) == ("tf:edge", None, "", "web*")
        assert (old.state, old.ended_at, workflows.generation_of(store, "wf_old")) == ("succeeded", 3.0, 1)
        assert workflows.get(store, "wf_rot").inventory is None
        assert [(row.name, row.state, row.job) for row in steps.of(store, "wf_old")] == [
            ("configure", "succeeded", "job_old")
        ]
        (attempt,) = jobs.attempts(store, "job_old")
        assert (attempt.tier, attempt.source, attempt.exit_code) == ("degraded", "d1", 0)
        assert jobs.hosts(store, "job_old") == (HostResult(host="web1", outcome="ok", ok=3),)
        assert targets.resolve(store, "tf:edge").hosts == (WEB,)
        (found,) = hosts.every(store)
        assert (found.host, found.converged_at, [pin.key for pin in found.pins]) == (WEB, None, ["AAAA"])
        (ended,) = events.after(store, 0)
        assert (ended.seq, ended.at, ended.event.workflow) == (1, 3.0, "wf_old")
        # What is new works in it, and a new rule lets pass what it holds already.
        schedules.add(store, Schedule(name="conv", cron="0 0 3 * * *", work=WORK), 5000.0)
        rules.add(store, Rule(name="greet", on="host.joined", work=WORK))
        assert (rules.looked(store), rules.get(store, "greet").since) == (0, 2)
    finally:
        store.close()


def test_a_ledger_is_migrated_once(tmp_path: Path) -> None:
    path = tmp_path / "exocomp.db"
    old_store(path)
    store = open_writer(path)
    schema = store.rows("SELECT name, sql FROM sqlite_master ORDER BY name")
    rules.look(store, 1)
    store.rows("UPDATE workflow SET inventory = 'tf:other' WHERE id = 'wf_old'")
    store.close()
    store = open_writer(path)
    assert store.rows("SELECT name, sql FROM sqlite_master ORDER BY name") == schema
    assert rules.looked(store) == 1
    assert workflows.get(store, "wf_old").inventory == "tf:other"
    store.close()


def test_a_migration_that_fails_leaves_the_ledger_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "exocomp.db"
    old_store(path)
    broken = [*migrations(), (9999, "CREATE TABLE half (a TEXT); INSERT INTO nowhere VALUES (1);")]
    monkeypatch.setattr("exocomp.store.migrate.migrations", lambda: broken)
    with pytest.raises(apsw.SQLError, match="nowhere"):
        open_writer(path)
    monkeypatch.undo()
    store = open_writer(path)
    assert store.rows("SELECT 1 FROM sqlite_master WHERE name = 'half'") == []
    assert store.db.pragma("user_version") == migrations()[-1][0]
    assert workflows.get(store, "wf_old").inventory == "tf:edge"
    store.close()
