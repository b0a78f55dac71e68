"""What a job that ran into a wall says: the wall, and the flag that opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from exocomp.actors import walls
from exocomp.drivers.ansible import hints
from exocomp.model import Exit, Generation, Tier, Verdict, Workspace
from exocomp.protocol.jobs import Job, PlayJob, TofuJob, Verb

FAILED = Verdict(ok=False, reason="apply failed", hint="see the job's log")
PLAY = PlayJob(
    playbook="/p.yml",
    generation=Generation(inventory="tf:edge", number=1, path="/g", digest="x", hosts=(), created_at=0.0),
)
ENGINE = TofuJob(verb=Verb.APPLY, workspace=Workspace(name="edge", directory="/m", root="/m"))


def explain(log: str, spec=ENGINE, tier: Tier = Tier.ENFORCING, verdict: Verdict = FAILED) -> Verdict:
    job = Job(
        id="job_1", workflow="wf_1", step="apply", spec=spec, key=None, state="running", attempt=1, created_at=0.0
    )
    return walls.explain(verdict, job, log, ("/usr", "/data"), tier)


@pytest.mark.parametrize(
    "log",
    [
        'Post "http://192.0.2.1:8080/machines": dial tcp 192.0.2.1:8080: connect: permission denied',
        "ssh: connect to host 192.0.2.1 port 8080: Permission denied",
        "curl: (7) Failed to connect to 192.0.2.1 port 8080 after 0 ms: Permission denied",
    ],
)
def test_a_refused_port_is_named_with_its_flag(log: str) -> None:
    verdict = explain(log)
    assert verdict.reason == "apply failed (the job may not connect to TCP port 8080)"
    assert verdict.hint == "register the workspace with --egress 8080"
    assert explain(log, PLAY).hint == "run it with --egress 8080"


def test_an_engines_port_that_was_not_granted_needs_no_word_of_the_error() -> None:
    log = "curl: (7) Failed to connect to 192.0.2.1 port 8080 after 0 ms: Couldn't connect to server"
    assert "TCP port 8080" in explain(log).reason
    assert explain(log, PLAY) == FAILED
    assert explain(log.replace("8080", "443")) == FAILED


def test_a_port_that_the_tool_does_not_name_is_still_a_port() -> None:
    for log in (
        "urllib.error.URLError: <urlopen error [Errno 13] Permission denied>",
        "    sock.connect(sa)\nPermissionError: [Errno 13] Permission denied",
        r"836, in create_connection\n    sock.connect(sa)\nPermissionError: [Errno 13] Permission denied\n",
        "    s.connect(address)\n    ~~~~~~~~~^^^^^^^^^\nPermissionError: [Errno 13] Permission denied",
    ):
        assert explain(log).hint == "register the workspace with --egress PORT", log


def test_a_path_that_is_here_but_not_in_the_view_is_named(tmp_path: Path) -> None:
    (tmp_path / "cloud.json").touch()
    for said in (
        f"open {tmp_path}/cloud.json: no such file or directory",
        f"cat: {tmp_path}/cloud.json: No such file or directory",
        f"FileNotFoundError: [Errno 2] No such file or directory: '{tmp_path}/cloud.json'",
        f"PermissionError: [Errno 13] Permission denied: '{tmp_path}/cloud.json'",
    ):
        assert f"can't see {tmp_path}/cloud.json" in explain(said).reason, said


@pytest.mark.parametrize(
    "log",
    [
        "",
        "Error: exit status 1",
        "cat: /nowhere/at/all: No such file or directory",
        "cat: /data/jobs/job_1/1/x: No such file or directory",
        "connect to host 192.0.2.1 port 22: Connection refused",
    ],
)
def test_what_is_no_wall_is_left_as_it_was(log: str) -> None:
    assert explain(log) == FAILED


def test_without_a_jail_there_is_no_wall_and_a_success_stays_one() -> None:
    log = "ssh: connect to host 192.0.2.1 port 8080: Permission denied"
    assert explain(log, tier=Tier.OFF) == FAILED
    assert explain(log, verdict=Verdict(ok=True)) == Verdict(ok=True)


def test_ansibles_word_for_a_refused_port_leads_to_the_flag() -> None:
    said = "Failed to connect to the host via ssh: ssh: connect to host 192.0.2.1 port 2222: Permission denied"
    assert hints.of(said).endswith("run it with --egress 2222")


def test_a_sandbox_that_could_not_be_made_says_which_layer_and_its_cure() -> None:
    log = "x\nexocomp: nothing was run: namespaces: there is no bwrap; install the package bubblewrap\n"
    verdict = walls.unmade(Exit(code=125, command="plan"), log)
    assert verdict is not None
    assert verdict.reason == "the sandbox could not be made, so nothing was run: namespaces: there is no bwrap"
    assert verdict.hint.startswith("install the package bubblewrap; ")


def test_a_job_that_exits_125_by_itself_is_judged_as_any_other() -> None:
    assert walls.unmade(Exit(code=125, command="plan"), "Error: 125\n") is None
