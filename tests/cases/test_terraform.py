"""Modules of the field through the real engine: what their applies leave, and what their failures say."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from exocomp.config import Settings
from exocomp.drivers.tofu import outcome, progress
from exocomp.errors import ExocompError, WrongUsage
from exocomp.model import Exit
from exocomp.protocol.jobs import TofuJob, Verb
from tests.tofu_runs import ENV, Bench, kill_group, require_engine, run_spec, start

CASES = Path(__file__).parent / "terraform"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    require_engine()
    return Bench(tmp_path)


def case(name: str, tmp_path: Path) -> Path:
    """A copy of a case's module, as a user's directory would look."""
    target = tmp_path / name
    shutil.copytree(CASES / name, target)
    return target


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CASES / name / "expected_output.json").read_text())
    return found


AS_RECORDED = (
    "tf-01-no-outputs",
    "tf-02-null-inventory",
    "tf-04-sensitive-inventory",
    "tf-05-odd-values",
    "tf-06-map-unify",
)


@pytest.mark.parametrize("name", AS_RECORDED)
def test_outputs_are_what_the_engine_has_with_their_sensitivity(name: str, bench: Bench, tmp_path: Path) -> None:
    done = bench.apply(bench.add(case(name, tmp_path)))
    assert {n: (o.value, o.sensitive) for n, o in done.outputs.items()} == {
        n: (o["value"], o["sensitive"]) for n, o in expected(name).items()
    }


def test_a_large_integer_stays_exact(bench: Bench, tmp_path: Path) -> None:
    values = bench.apply(bench.add(case("tf-05-odd-values", tmp_path))).values
    assert values["big"] == 12345678901234567890123
    assert isinstance(values["big"], int)
    assert values["esc"] == "\x1b[31mred\x1b[0m"


@pytest.mark.parametrize("name", ["tf-04-sensitive-inventory", "tf-20-env-name-hijack"])
def test_no_sensitive_value_gets_into_the_log_and_tidy_leaves_none(name: str, bench: Bench, tmp_path: Path) -> None:
    done = bench.apply(bench.add(case(name, tmp_path)))
    assert any(output.sensitive for output in done.outputs.values())
    secrets = ("s3cr3t-value", "/nonexistent", "5432")
    assert not any(secret in done.log for secret in secrets)
    outcome.tidy(done.attempt)
    left = [p for p in done.attempt.rglob("*") if p.is_file()]
    assert not any(secret.encode() in p.read_bytes() for p in left for secret in secrets)
    assert not any((done.attempt / name).exists() for name in ("plan", "outputs.json"))


def test_a_sensitive_output_named_like_a_variable_of_the_environment_changes_no_environment(
    bench: Bench, tmp_path: Path
) -> None:
    space = bench.add(case("tf-20-env-name-hijack", tmp_path))
    bench.apply(space)
    again = bench.apply(space)
    assert again.spec.env["PATH"] == ENV["PATH"]
    assert again.values["PATH"] == "/nonexistent"
    assert again.values["creds"] == {"port": 5432, "user": "u"}


def test_a_partial_failure_reads_no_outputs_and_says_what_was_changed(bench: Bench, tmp_path: Path) -> None:
    directory = case("tf-07-partial-failure", tmp_path)
    bench.apply(bench.add(directory))
    failed = bench.run(bench.add(directory, variables={"bad": "true"}))
    assert not failed.verdict.ok
    assert failed.exit.command == "apply"
    assert not (failed.attempt / "outputs.json").exists()
    reason = failed.verdict.reason
    assert "terraform_data.boom" in reason
    assert "main.tf:" in reason
    assert "exit status 3" in reason
    assert "resource" in reason
    assert "changed" in reason
    assert "run it again" in failed.verdict.hint


def test_an_empty_directory_is_no_workspace(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(WrongUsage, match="holds no"):
        bench.add(tmp_path / "empty")


def test_a_zero_byte_state_file_is_no_state(bench: Bench, tmp_path: Path) -> None:
    directory = case("tf-01-no-outputs", tmp_path)
    (directory / "terraform.tfstate").touch()
    assert bench.apply(bench.add(directory)).values == {}


def test_a_held_lock_fails_at_once_and_names_its_holder(bench: Bench, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("exocomp.drivers.tofu.order.LOCK_TIMEOUT", "0s")
    space = bench.add(case("tf-10-lock-held", tmp_path))
    spec, attempt = bench.prepare(space)
    quick = [c for c in spec.commands if c.name in ("init", "initialised", "plan")]
    assert run_spec(type(spec)(commands=tuple(quick), env=spec.env, cwd=spec.cwd), attempt).code == 0
    holder = start(spec, "apply", attempt / "log")
    try:
        wait_for(bench.module(space) / ".terraform.tfstate.lock.info")
        refused = bench.run(space)
    finally:
        kill_group(holder)
    assert refused.exit.command == "plan"
    assert "the state is locked by " in refused.verdict.reason
    assert "apply, lock " in refused.verdict.reason
    assert "force-unlock" not in refused.verdict.reason + refused.verdict.hint


def test_after_a_sigkill_the_next_apply_works(bench: Bench, tmp_path: Path) -> None:
    directory = case("tf-11-sigkill", tmp_path)
    space = bench.add(directory)
    spec, attempt = bench.prepare(space)
    first = [c for c in spec.commands if c.name in ("init", "initialised", "plan")]
    run_spec(type(spec)(commands=tuple(first), env=spec.env, cwd=spec.cwd), attempt)
    killed = start(spec, "apply", attempt / "log")
    wait_for(bench.module(space) / ".terraform.tfstate.lock.info")
    kill_group(killed)
    (directory / "main.tf").write_text((directory / "main.tf").read_text().replace("sleep 25", "true"))
    assert bench.apply(space).values == {"o": 1}


def test_an_interrupted_apply_saves_its_state_and_is_told_as_cancelled(bench: Bench, tmp_path: Path) -> None:
    directory = case("tf-11-sigkill", tmp_path)
    (directory / "first.tf").write_text('resource "terraform_data" "first" {}\n')
    space = bench.add(directory)
    spec, attempt = bench.prepare(space)
    first = [c for c in spec.commands if c.name in ("init", "initialised", "plan")]
    run_spec(type(spec)(commands=tuple(first), env=spec.env, cwd=spec.cwd), attempt)
    stopped = start(spec, "apply", attempt / "log")
    wait_for(attempt / "log", "terraform_data.first: Creation complete")
    kill_group(stopped, signal.SIGINT)
    job = TofuJob(verb=Verb.APPLY, workspace=space)
    verdict = outcome.judge(job, Exit(code=1, command="apply", cancelled=True), attempt)
    assert verdict.reason == "apply cancelled during apply after 1 resource was changed"
    state = json.loads((bench.module(space) / "terraform.tfstate").read_text())
    assert "first" in [resource["name"] for resource in state["resources"]]


def test_two_megabytes_in_one_line_are_read(bench: Bench, tmp_path: Path) -> None:
    done = bench.apply(bench.add(case("tf-13-large", tmp_path)))
    assert len(done.values["big"]) == 2_000_000
    assert len(done.values["ansible_inventory"]["all"]["hosts"]) == 500
    shown = [progress.decode(line) for line in done.log.splitlines()]
    assert sum(len(step.detail) for step in shown if step) < 10_000


def test_a_failed_check_is_a_warning_and_a_failed_precondition_a_failure(bench: Bench, tmp_path: Path) -> None:
    directory = case("tf-14-check-precondition", tmp_path)
    warned = bench.apply(bench.add(directory))
    assert warned.values == {"a": 1}
    shown = [progress.decode(line) for line in warned.log.splitlines()]
    assert any(step and step.state == "warning" and "Check block assertion failed" in step.what for step in shown)
    refused = bench.run(bench.add(directory, variables={"hard": "false"}))
    assert not refused.verdict.ok
    assert "precondition failed" in refused.verdict.reason
    assert not (refused.attempt / "outputs.json").exists()


def test_modules_are_installed_before_the_plan(bench: Bench, tmp_path: Path) -> None:
    directory = case("tf-15-not-initialised", tmp_path)
    assert bench.apply(bench.add(directory)).values == {"x": 1}


def test_a_module_that_appears_later_is_installed(bench: Bench, tmp_path: Path) -> None:
    directory = case("tf-15-not-initialised", tmp_path)
    space = bench.add(directory)
    bench.apply(space)
    shutil.copytree(directory / "m", directory / "n")
    with (directory / "main.tf").open("a") as main:
        main.write('module "n" { source = "./n" }\noutput "y" { value = module.n.x }\n')
    again = bench.apply(space)
    assert again.names[0] == "init"
    assert again.values == {"x": 1, "y": 1}


@pytest.mark.parametrize("variable", ["TF_WORKSPACE", "TF_CLI_ARGS", "TF_CLI_ARGS_plan", "TF_LOG", "TF_DATA_DIR"])
def test_no_variable_of_the_daemon_changes_what_runs(variable: str, tmp_path: Path) -> None:
    require_engine()
    settings = Settings(pass_env=("TF_*",))
    value = "-target=terraform_data.none" if "ARGS" in variable else "staging"
    bench = Bench(tmp_path, env={**ENV, variable: value}, settings=settings)
    directory = case("tf-17-workspace-env", tmp_path)
    (directory / ".terraform").mkdir()
    shutil.copy(directory / "dot-terraform-environment", directory / ".terraform" / "environment")
    done = bench.apply(bench.add(directory))
    assert done.values == {"a": 1}
    assert done.spec.env.get(variable) != value


def test_noise_on_stderr_is_no_output(tmp_path: Path) -> None:
    require_engine()
    bench = Bench(tmp_path)
    noisy = wrapper(tmp_path / "noisy", 'echo "Warning: some noise" >&2')
    done = bench.apply(bench.add(case("tf-02-null-inventory", tmp_path), engine=str(noisy)))
    assert done.values == {"region": "eu-1"}


def test_a_wrapper_that_prints_on_stdout_is_named_by_its_first_line(tmp_path: Path) -> None:
    require_engine()
    bench = Bench(tmp_path)
    noisy = wrapper(tmp_path / "noisy", '[ "$1" = output ] && echo "[command]/usr/bin/terraform-bin output"')
    done = bench.run(bench.add(case("tf-02-null-inventory", tmp_path), engine=str(noisy)))
    with pytest.raises(ExocompError, match=r"\[command\]/usr/bin/terraform-bin output") as caught:
        _ = done.outputs
    assert "wrapper" in caught.value.hint


def wrapper(path: Path, line: str) -> Path:
    real = shutil.which("tofu") or shutil.which("terraform")
    path.write_text(f'#!/bin/sh\n{line}\nexec {real} "$@"\n')
    path.chmod(0o700)
    return path


def wait_for(path: Path, text: str = "") -> None:
    until = time.monotonic() + 30
    while not (path.exists() and text in path.read_text(errors="replace")):
        assert time.monotonic() < until, f"{path} never came"
        time.sleep(0.02)


def test_every_case_directory_is_used() -> None:
    source = Path(__file__).read_text()
    assert [path.name for path in CASES.iterdir() if path.name not in source] == []
