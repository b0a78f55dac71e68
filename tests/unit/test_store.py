"""The ledger: lawful moves only, one transaction a transition, one holder a key, newer schemas refused."""

from __future__ import annotations

from pathlib import Path

import apsw
import msgspec
import pytest

from exocomp.errors import Conflict, IllegalMove, NotFound, StaleMove
from exocomp.model import MOVES, Host, Pin, RunOptions, RunState, StepState, Trust, Workflow, Workspace
from exocomp.protocol.events import HostPinned, StepMoved, WorkflowEnded
from exocomp.protocol.jobs import Job, ProbeJob, TofuJob, Verb
from exocomp.protocol.mail import Captured, Report
from exocomp.store import events, inventories, pins, steps, workflows, workspaces
from exocomp.store.store import Store, StoreUnwell, open_reader, open_writer

CHAIN = (("apply", "apply"), ("wait", "wait"))


@pytest.fixture
def store(tmp_path: Path):
    store = open_writer(tmp_path / "exocomp.db")
    yield store
    store.close()


def workflow(id: str = "wf_1", **fields) -> Workflow:
    values = {"kind": "provision", "workspace": "edge", "playbook": "/p.yml", "options": RunOptions()}
    return Workflow(id=id, state=RunState.RUNNING, created_at=0.0, **(values | fields))


def job(step, key: str | None = None, id: str = "job_1") -> Job:
    return Job(
        id=id,
        workflow=step.workflow,
        step=step.name,
        spec=ProbeJob(hosts=(), timeout_s=1.0),
        key=key,
        state="running",
        attempt=1,
        created_at=0.0,
    )


def begun(store: Store, id: str = "wf_1"):
    workflows.begin(store, workflow(id), CHAIN)
    return steps.of(store, id)[0]


def test_the_words_of_the_model_are_the_words_of_the_schema(store: Store) -> None:
    assert {(old.value, new.value) for old, news in MOVES.items() for new in news} == set(
        store.rows("SELECT old, new FROM move")
    )


def test_the_store_is_wal_and_fully_synchronous(store: Store) -> None:
    assert store.db.pragma("journal_mode") == "wal"
    assert store.db.pragma("synchronous") == 2
    assert (store.path.stat().st_mode & 0o777) == 0o600


def test_a_release_and_its_event_are_one_transaction(store: Store) -> None:
    step = begun(store)
    before = events.newest(store)
    steps.release(store, step, job(step))
    (recorded,) = events.after(store, before)
    assert isinstance(recorded.event, StepMoved)
    assert (recorded.event.old, recorded.event.new, recorded.event.job) == ("ready", "running", "job_1")
    assert steps.of(store, "wf_1")[0].state is StepState.RUNNING


def test_an_unlawful_move_raises_in_python_and_in_sql(store: Store) -> None:
    step = begun(store)
    blocked = steps.of(store, "wf_1")[1]
    with pytest.raises(IllegalMove):
        steps.release(store, blocked, job(blocked))
    with pytest.raises(apsw.ConstraintError, match="unlawful"):
        store.rows("UPDATE step SET state = 'running' WHERE workflow = ? AND name = 'wait'", "wf_1")
    assert steps.of(store, "wf_1")[0] == step


def test_a_stale_move_changes_nothing(store: Store) -> None:
    step = begun(store)
    steps.release(store, step, job(step))
    newest = events.newest(store)
    with pytest.raises(StaleMove):
        steps.refuse(store, step, "late", "")
    assert events.newest(store) == newest


def test_a_success_makes_the_next_step_ready_in_the_same_commit(store: Store) -> None:
    step = begun(store)
    steps.release(store, step, job(step))
    running = steps.of(store, "wf_1")[0]
    steps.settle(store, running, Report(job="job_1", attempt=1, outcome="succeeded"), StepState.SUCCEEDED)
    assert [s.state for s in steps.of(store, "wf_1")] == ["succeeded", "ready"]


def test_a_failure_leaves_the_rest_blocked_and_ends_the_workflow(store: Store) -> None:
    step = begun(store)
    steps.release(store, step, job(step))
    running = steps.of(store, "wf_1")[0]
    steps.settle(store, running, Report(job="job_1", attempt=1, outcome="failed", reason="no"), StepState.FAILED)
    assert [s.state for s in steps.of(store, "wf_1")] == ["failed", "blocked"]
    ended = workflows.get(store, "wf_1")
    assert (ended.state, ended.reason) == (RunState.FAILED, "apply: no")


def test_the_last_success_ends_the_workflow(store: Store) -> None:
    step = begun(store)
    steps.skip(store, step, "nothing to do")
    steps.skip(store, steps.of(store, "wf_1")[1], "nothing to do")
    assert workflows.get(store, "wf_1").state is RunState.SUCCEEDED
    assert isinstance(events.after(store, 0)[-1].event, WorkflowEnded)


def test_one_concurrency_key_has_one_holder(store: Store) -> None:
    first = begun(store, "wf_1")
    second = begun(store, "wf_2")
    steps.release(store, first, job(first, key="workspace:edge"))
    assert steps.key_holder(store, "workspace:edge") == "wf_1"
    with pytest.raises(apsw.ConstraintError):
        steps.release(store, second, job(second, key="workspace:edge", id="job_2"))
    assert steps.of(store, "wf_2")[0].state is StepState.READY


def test_a_lost_attempt_rearms_its_step_and_runs_as_the_next_attempt(store: Store) -> None:
    step = begun(store)
    released = steps.release(store, step, job(step))
    steps.rearm(store, steps.of(store, "wf_1")[0], released, "the shim is gone")
    again = steps.release(store, steps.of(store, "wf_1")[0], released)
    assert again.attempt == 2
    assert store.rows("SELECT number, state FROM attempt ORDER BY number") == [(1, "lost"), (2, "running")]


def test_cancel_ends_a_workflow_at_once_when_nothing_runs(store: Store) -> None:
    begun(store)
    workflows.cancel(store, workflows.get(store, "wf_1"))
    assert workflows.get(store, "wf_1").state is RunState.CANCELLED
    assert [s.state for s in steps.of(store, "wf_1")] == ["cancelled", "cancelled"]
    with pytest.raises(Conflict):
        workflows.cancel(store, workflows.get(store, "wf_1"))


def test_retry_reopens_from_a_step_and_blocks_what_follows(store: Store) -> None:
    step = begun(store)
    steps.skip(store, step, "")
    steps.refuse(store, steps.of(store, "wf_1")[1], "no hosts", "")
    workflows.retry(store, workflows.get(store, "wf_1"), "apply")
    assert [s.state for s in steps.of(store, "wf_1")] == ["ready", "blocked"]
    assert workflows.get(store, "wf_1").state is RunState.RUNNING
    with pytest.raises(Conflict, match="still running"):
        workflows.retry(store, workflows.get(store, "wf_1"), "apply")


def test_the_same_content_captured_again_keeps_its_generation(store: Store) -> None:
    begun(store)
    got = Captured(
        inventory="tf:edge", path="/x/1.json", digest="aa", hosts=(Host(name="a", address="192.0.2.1"),), outputs=1
    )
    for content in (got, got, msgspec.structs.replace(got, digest="bb", hosts=())):
        with store.transaction("test") as tx:
            inventories.capture(
                tx, content, workflow="wf_1", workspace="edge", standing="/x/edge.json", message="captured"
            )
    assert inventories.numbers(store, "tf:edge") == (1, 2)
    kinds = [type(r.event).__name__ for r in events.after(store, 1)]
    assert kinds == ["OutputsCaptured", "HostJoined", "OutputsCaptured", "OutputsCaptured", "HostLeft"]
    with pytest.raises(NotFound, match="generation 9"):
        inventories.get(store, "tf:edge", 9)


def a_pin(key: str = "AAAA", **fields) -> Pin:
    values = {"name": "192.0.2.1", "key_type": "ssh-ed25519", "trust": Trust.TOFU, "fingerprint": "SHA256:x"}
    return Pin(key=key, pinned_at=0.0, **(values | fields))


def test_trust_is_one_way(store: Store) -> None:
    pins.pin(store, "192.0.2.1", [a_pin()], rotate=False)
    with pytest.raises(Conflict, match="another ssh-ed25519 key"):
        pins.pin(store, "192.0.2.1", [a_pin("BBBB")], rotate=False)
    assert [p.key for p in pins.of(store, "192.0.2.1")] == ["AAAA"]
    pins.pin(store, "192.0.2.1", [a_pin("BBBB", trust=Trust.OPERATOR)], rotate=True)
    assert [p.key for p in pins.of(store, "192.0.2.1")] == ["BBBB"]


def test_a_known_pin_is_not_recorded_twice(store: Store) -> None:
    for _ in range(2):
        pins.pin(store, "192.0.2.1", [a_pin()], rotate=False)
    assert sum(isinstance(r.event, HostPinned) for r in events.after(store, 0)) == 1


def test_a_newer_schema_is_refused_clearly(tmp_path: Path) -> None:
    open_writer(tmp_path / "exocomp.db").close()
    db = apsw.Connection(str(tmp_path / "exocomp.db"))
    db.pragma("user_version", 9999)
    db.close()
    for opener in (open_writer, open_reader):
        with pytest.raises(Conflict, match="schema 9999"):
            opener(tmp_path / "exocomp.db")


@pytest.mark.parametrize(
    ("content", "says", "kind"),
    [
        (b"garbage" * 999, "file is not a database", StoreUnwell),
        (b"", "is empty", NotFound),
    ],
)
def test_what_is_no_ledger_is_refused_in_words(content: bytes, says: str, kind: type, tmp_path: Path) -> None:
    (tmp_path / "exocomp.db").write_bytes(content)
    with pytest.raises(kind, match=says):
        open_reader(tmp_path / "exocomp.db")
    if content:
        with pytest.raises(StoreUnwell, match=says):
            open_writer(tmp_path / "exocomp.db")


def test_a_store_that_cannot_be_opened_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "exocomp.db").mkdir()
    for open_it in (open_writer, open_reader):
        with pytest.raises(StoreUnwell, match="cannot be opened or read"):
            open_it(tmp_path / "exocomp.db")


def test_a_reader_asks_for_the_upgrade_of_an_older_schema(tmp_path: Path) -> None:
    path = tmp_path / "exocomp.db"
    store = open_writer(path)
    store.db.pragma("user_version", 1)
    store.close()
    with pytest.raises(Conflict, match="has schema 1, this exocomp reads") as refusal:
        open_reader(path)
    assert "exocomp serve" in refusal.value.hint


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    open_writer(tmp_path / "exocomp.db").close()
    reader = open_reader(tmp_path / "exocomp.db")
    with pytest.raises(StoreUnwell):
        workflows.begin(reader, workflow(), CHAIN)
    reader.close()


def test_workspaces_are_registered_once_and_not_removed_while_in_use(store: Store) -> None:
    space = Workspace(name="edge", directory="/m", root="/m")
    workspaces.add(store, space)
    with pytest.raises(Conflict, match="exists already"):
        workspaces.add(store, space)
    begun(store)
    with pytest.raises(Conflict, match="in use"):
        workspaces.remove(store, "edge")
    workflows.cancel(store, workflows.get(store, "wf_1"))
    workspaces.remove(store, "edge")
    with pytest.raises(NotFound):
        workspaces.get(store, "edge")


def test_ids_are_found_by_prefix_suffix_and_latest(store: Store) -> None:
    begun(store, "wf_01abcdx1")
    begun(store, "wf_01abcdy2")
    assert workflows.find(store, "01abcdx").id == "wf_01abcdx1"
    assert workflows.find(store, "dy2").id == "wf_01abcdy2"
    assert workflows.find(store, "latest").id == "wf_01abcdy2"
    with pytest.raises(Conflict, match="more than one"):
        workflows.find(store, "wf_01a")
    with pytest.raises(NotFound):
        workflows.find(store, "%")


def test_a_jobs_spec_comes_back_as_it_was(store: Store) -> None:
    step = begun(store)
    spec = TofuJob(verb=Verb.APPLY, workspace=Workspace(name="edge", directory="/m", root="/m"))
    steps.release(store, step, msgspec.structs.replace(job(step), spec=spec))
    (found,) = steps.running_jobs(store)
    assert found.spec == spec
    assert found.kind == "tofu"


def test_the_latest_is_what_was_begun_last_also_when_the_clock_was_set_back(tmp_path: Path) -> None:
    times = iter((1000.0, 900.0))
    store = open_writer(tmp_path / "exocomp.db", now=lambda: next(times))
    for id in ("wf_02", "wf_01"):
        workflows.begin(store, workflow(id), CHAIN)
    assert workflows.find(store, "latest").id == "wf_01"
    assert [each.id for each in workflows.every(store)] == ["wf_01", "wf_02"]
    store.close()


def test_a_generation_number_that_cannot_be_is_not_found(store: Store) -> None:
    for number in (0, -1, 2**63):
        assert inventories.find(store, "tf:edge", number) is None
