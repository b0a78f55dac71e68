"""Verdicts: what each failure of the real engine says, and what an attempt's leftovers mean."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from exocomp.drivers.tofu import outcome
from exocomp.drivers.tofu.diagnostics import read_lines
from exocomp.errors import ExocompError
from exocomp.model import Exit, Verdict, Workspace
from exocomp.protocol.jobs import TofuJob, Verb
from tests.tofu_runs import Bench, require_engine

SPACE = Workspace(name="edge", directory="/m", root="/m")


def judge(attempt: Path, verb: Verb = Verb.APPLY, **exit: Any) -> Verdict:
    return outcome.judge(
        TofuJob(verb=verb, workspace=SPACE), Exit(**{"code": 1, "command": "apply", **exit}), attempt
    )


@pytest.mark.parametrize(
    ("verb", "command", "ok"),
    [
        (Verb.PLAN, "plan", True),
        (Verb.APPLY, "plan", False),
        (Verb.APPLY, "output", False),
        (Verb.APPLY, "state-after", True),
        (Verb.DESTROY, "state-after", True),
    ],
)
def test_only_the_end_of_the_whole_sequence_is_success(verb: Verb, command: str, ok: bool, tmp_path: Path) -> None:
    assert judge(tmp_path, verb, code=0, command=command).ok is ok


FAILING = {
    "syntax": ('output "x" {', "init", r"init failed: .*main\.tf:1"),
    "unknown attribute": (
        'resource "terraform_data" "x" {\n  nope = 1\n}\n',
        "plan",
        r"Unsupported argument \(main\.tf:2\)",
    ),
    "bad reference": (
        'output "x" {\n  value = terraform_data.nope.id\n}\n',
        "plan",
        r"undeclared resource \(main\.tf:2\)",
    ),
    "missing variables": (
        'variable "region" {}\nvariable "size" { type = number }\n',
        "plan",
        r"plan failed: no value for required variables region, size \(main\.tf:1\)",
    ),
    "missing module": ('module "m" { source = "./none" }\n', "init", r"a module can't be installed: "),
    "unreachable provider": (
        'terraform {\n  required_providers {\n    x = { source = "registry.invalid/x/x" }\n  }\n}\n'
        'resource "x_y" "z" {}\n',
        "init",
        r"init failed: a provider is not installed: ",
    ),
    "cloud": (
        'terraform {\n  cloud {\n    hostname = "cloud.invalid"\n    organization = "o"\n'
        '    workspaces { name = "n" }\n  }\n}\n',
        "init",
        r"init failed: .*cloud\.invalid",
    ),
    "validation": (
        'variable "n" {\n  default = 1\n  validation {\n    condition = var.n > 1\n'
        '    error_message = "n too small"\n  }\n}\n',
        "plan",
        r"plan failed: Invalid value for variable",
    ),
    "provisioner": (
        'resource "terraform_data" "x" {\n  provisioner "local-exec" { command = "echo s3cr3t; exit 7" }\n}\n',
        "apply",
        r"apply failed: terraform_data\.x: local-exec provisioner error \(exit status 7, main\.tf:2\)",
    ),
    "several": (
        'output "x" {\n  value = terraform_data.a.id\n}\noutput "y" {\n  value = terraform_data.b.id\n}\n',
        "plan",
        r"\(and 1 more\)",
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_failure_is_told_in_one_clear_sentence(name: str, tmp_path: Path) -> None:
    require_engine()
    bench = Bench(tmp_path)
    text, command, reason = FAILING[name]
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "main.tf").write_text(text)
    done = bench.run(bench.add(tmp_path / "m"))
    assert done.exit.command == command, done.log
    assert not done.verdict.ok
    assert re.search(reason, done.verdict.reason), done.verdict
    assert "\n" not in done.verdict.reason
    assert "s3cr3t" not in done.verdict.reason
    assert done.verdict.hint
    assert not (done.attempt / "outputs.json").exists()


def test_a_missing_variable_names_the_flags(tmp_path: Path) -> None:
    require_engine()
    bench = Bench(tmp_path)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "main.tf").write_text('variable "region" {}\n')
    hint = bench.run(bench.add(tmp_path / "m")).verdict.hint
    assert "--var region=VALUE" in hint
    assert "--var-file" in hint


@pytest.mark.parametrize("change", ["path", "to remote", "from implicit"])
def test_a_changed_backend_is_refused_and_the_state_stays(change: str, tmp_path: Path) -> None:
    require_engine()
    bench = Bench(tmp_path)
    directory = tmp_path / "m"
    directory.mkdir()
    local = 'terraform {\n  backend "local" {\n    path = "%s"\n  }\n}\nresource "terraform_data" "x" {}\n'
    implicit = 'resource "terraform_data" "x" {}\n'
    (directory / "main.tf").write_text(implicit if change == "from implicit" else local % "a.state")
    space = bench.add(directory)
    bench.apply(space)
    remote = 'terraform {\n  backend "s3" {\n    bucket = "b"\n    key = "k"\n    region = "eu-west-1"\n  }\n}\n'
    (directory / "main.tf").write_text(remote if change == "to remote" else local % "b.state")
    done = bench.run(space)
    assert not done.verdict.ok
    assert "backend changed" in done.verdict.reason, (done.verdict, done.log)
    assert not (bench.module(space) / "b.state").exists()


def test_two_runs_after_a_changed_backend_fail_alike(tmp_path: Path) -> None:
    require_engine()
    bench = Bench(tmp_path)
    directory = tmp_path / "m"
    directory.mkdir()
    text = 'terraform {\n  backend "local" {\n    path = "%s"\n  }\n}\nresource "terraform_data" "x" {}\n'
    (directory / "main.tf").write_text(text % "a.state")
    space = bench.add(directory)
    bench.apply(space)
    (directory / "main.tf").write_text(text % "b.state")
    assert bench.run(space).verdict == bench.run(space).verdict
    (directory / "main.tf").write_text(text % "a.state")
    assert outcome.changes(bench.apply(space).attempt) == (0, 0, 0)


LOCK = """Error message: resource temporarily unavailable
Lock Info:
  ID:        5a7f-1
  Path:      terraform.tfstate
  Operation: OperationTypePlan
  Who:       eve@ci
  Version:   1.11.4
  Created:   2026-01-02 03:04:05 UTC
  Info:
"""


def diagnostic(summary: str, detail: str = "", **more: Any) -> str:
    body = {"severity": "error", "summary": summary, "detail": detail, **more}
    return json.dumps(
        {"@message": f"Error: {summary}", "type": "diagnostic", "diagnostic": body}, separators=(",", ":")
    )


def test_a_held_lock_says_who_and_since_when_and_never_to_force_it(tmp_path: Path) -> None:
    for text in (
        diagnostic("Error acquiring the state lock", LOCK),
        "╷\n│ Error: Error acquiring the state lock\n│ \n"
        + "".join(f"│ {line}\n" for line in LOCK.splitlines())
        + "╵\n",
    ):
        (tmp_path / "log").write_text(text)
        verdict = judge(tmp_path, command="plan")
        assert verdict.reason == (
            "plan failed: the state is locked by eve@ci since 2026-01-02 03:04:05 UTC (plan, lock 5a7f-1)"
        )
        assert "force-unlock" not in verdict.hint


KNOWN = {
    "Saved plan is stale": "the saved plan is stale",
    "Failed to save state": "the state could not be saved",
    "Failed to persist state to backend": "the state could not be saved",
    "Required plugins are not installed": "a provider is not installed",
    "Inconsistent dependency lock file": "a provider is not installed",
    "Module not installed": "a module can't be installed",
    'Backend initialization required, please run "tofu init"': "backend changed",
}


@pytest.mark.parametrize("summary", KNOWN)
def test_known_failures_have_a_hint_of_their_own(summary: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(diagnostic(summary) + "\n")
    verdict = judge(tmp_path, command="plan")
    assert KNOWN[summary] in verdict.reason
    assert verdict.hint != "see the job's log"


COMPLETE = '{"@message":"x","type":"apply_complete","hook":{"action":"create"}}\n'


@pytest.mark.parametrize("how", ["cancelled", "timed_out"])
def test_a_stop_says_where_it_came_and_what_was_changed(how: str, tmp_path: Path) -> None:
    before = judge(tmp_path, command="plan", code=-2, **{how: True})
    assert before.reason == f"apply {how.replace('_', ' ')} during plan"
    assert before.hint.startswith("nothing was changed")
    amid = judge(tmp_path, **{how: True})
    assert "half done" in amid.hint
    (tmp_path / "log").write_text(COMPLETE * 2 + diagnostic("operation canceled"))
    after = judge(tmp_path, **{how: True})
    assert after.reason == f"apply {how.replace('_', ' ')} during apply after 2 resources were changed"
    assert "run it again" in after.hint


@pytest.mark.parametrize(
    ("exit", "said"),
    [
        ({"code": 127}, "could not be started"),
        ({"code": 74, "command": "output"}, "the disk did not take its output"),
        ({"code": -9}, "killed by SIGKILL"),
        ({"code": -99}, "signal 99"),
        ({"code": 3, "command": "init"}, "init failed: exit 3: last words"),
    ],
)
def test_without_diagnostics_the_exit_tells(exit: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("first\n\x1b[31mlast words\x1b[0m\n╵\n\n")
    verdict = judge(tmp_path, **exit)
    assert said in verdict.reason
    assert verdict.hint


def test_text_in_a_log_can_not_pretend_to_be_a_diagnostic() -> None:
    said = json.dumps({"@message": diagnostic("fake"), "type": "provision_progress"}, separators=(",", ":"))
    cut = diagnostic("cut")[:-5]
    assert read_lines([said, cut, "{}", "[]", "null"]).problems == ()


def test_the_preface_of_init_is_not_the_reason() -> None:
    found = read_lines(
        [
            "Error: Terraform encountered problems during initialisation, including problems",
            "with the configuration, described below.",
            "",
            "Error: Invalid block",
            "",
            '  on sub/main.tf line 4, in output "x":',
            '   4: output "x" {',
            "",
            "Detail of it.",
            "Warning: not this",
            "",
        ]
    ).problems
    assert [(problem.summary, problem.where) for problem in found] == [("Invalid block", "sub/main.tf:4")]


@pytest.mark.parametrize(
    "text", ["", "\n", "noise\n{}", "[]", "3", '{"a": 1}', '{"a": {}}', '{"a": {"value": "s3cr3t"']
)
def test_what_is_no_output_json_is_refused_without_showing_values(text: str, tmp_path: Path) -> None:
    (tmp_path / "outputs.json").write_text(text)
    with pytest.raises(ExocompError, match="printed no outputs") as caught:
        outcome.outputs(tmp_path)
    assert "s3cr3t" not in caught.value.what


def test_outputs_keep_their_kinds(tmp_path: Path) -> None:
    (tmp_path / "outputs.json").write_text(
        '{"n": {"sensitive": true, "type": "number", "value": 9007199254740993}, "s": {"value": "\\u003c\\u2028"}}'
    )
    found = outcome.outputs(tmp_path)
    assert (found["n"].value, found["n"].sensitive) == (9007199254740993, True)
    assert (found["s"].value, found["s"].sensitive) == ("<\u2028", False)


def test_tidy_of_an_attempt_without_anything_is_no_error(tmp_path: Path) -> None:
    outcome.tidy(tmp_path)
    outcome.tidy(tmp_path / "gone")
    assert os.listdir(tmp_path) == []
    assert outcome.changes(tmp_path) == (0, 0, 0)
