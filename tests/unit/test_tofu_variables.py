"""What reaches an engine from outside: variables as files, and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from exocomp.config import Settings
from exocomp.drivers.tofu import outcome
from exocomp.errors import WrongUsage
from tests.tofu_runs import ENV, PLAIN, Bench, require_engine, write


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    require_engine()
    return Bench(tmp_path)


VARIABLES = """
variable "text" { type = string }
variable "untyped" {}
variable "number" { type = number }
variable "flag" { type = bool }
variable "list" { type = list(string) }
variable "object" { type = object({ a = string, b = optional(number, 7) }) }
variable "from_file" {}
variable "from_auto" {}
output "all" {
  value = [var.text, var.untyped, var.number, var.flag, var.list, var.object, var.from_file, var.from_auto]
}
"""


def test_variables_mean_what_they_mean_on_the_command_line(bench: Bench, tmp_path: Path) -> None:
    directory = write(tmp_path / "m", main=VARIABLES)
    (directory / "x.auto.tfvars").write_text('from_auto = "auto"\nfrom_file = "auto"\ntext = "auto"\n')
    (tmp_path / "one.tfvars").write_text('from_file = "file"\ntext = "file"\n')
    (tmp_path / "two.tfvars.json").write_text('{"from_file": "json"}')
    odd = 'a "quoted" ${x} %{if} \\n é 日本\t\r\nline \x01 $${y} \\'
    given = {
        "text": odd,
        "untyped": "[1, 2]",
        "number": "5",
        "flag": "true",
        "list": '["a", "b"]',
        "object": '{a = "x"}',
    }
    space = bench.add(
        directory, variables=given, var_files=(str(tmp_path / "one.tfvars"), str(tmp_path / "two.tfvars.json"))
    )
    done = bench.apply(space)
    assert done.values["all"] == [odd, "[1, 2]", 5, True, ["a", "b"], {"a": "x", "b": 7}, "json", "auto"]
    assert not any("quoted" in word for command in done.spec.commands for word in command.argv)
    generated = list(done.attempt.glob("vars-*"))
    assert [path.stat().st_mode & 0o777 for path in generated] == [0o600] * 3
    outcome.tidy(done.attempt)
    assert list(done.attempt.glob("vars-*")) == []


def test_an_ephemeral_variable_reaches_the_apply_too(bench: Bench, tmp_path: Path) -> None:
    text = 'variable "token" {\n  type      = string\n  ephemeral = true\n}\noutput "o" { value = 1 }\n'
    assert bench.apply(bench.add(write(tmp_path / "m", main=text), variables={"token": "t"})).values == {"o": 1}


def test_a_variable_that_went_away_is_refused_before_anything_runs(bench: Bench, tmp_path: Path) -> None:
    directory = write(tmp_path / "m", main=PLAIN + 'variable "a" {}\n')
    space = bench.add(directory, variables={"a": "x"})
    write(directory, main=PLAIN)
    with pytest.raises(WrongUsage, match="declares no variable 'a'"):
        bench.prepare(space)


def test_the_environment_is_an_allow_list(tmp_path: Path) -> None:
    require_engine()
    env = {
        **ENV,
        "AWS_KEY": "k",
        "AWS_SECRET": "s",
        "HOME": "/root",
        "TF_VAR_x": "1",
        "SECRET": "no",
        "EXOCOMP_X": "1",
    }
    bench = Bench(tmp_path, env=env, settings=Settings(pass_env=("AWS_*", "TF_VAR_x", "EXOCOMP_X")))
    spec, attempt = bench.prepare(bench.add(write(tmp_path / "m", main=PLAIN)))
    assert {name: value for name, value in spec.env.items() if name.startswith(("AWS", "TF_VAR"))} == {
        "AWS_KEY": "k",
        "AWS_SECRET": "s",
        "TF_VAR_x": "1",
    }
    assert spec.env["HOME"] == str(attempt / "home")
    assert set(spec.env) - {"AWS_KEY", "AWS_SECRET", "TF_VAR_x"} == {
        "PATH",
        "HOME",
        "TMPDIR",
        "LC_ALL",
        "TF_CLI_CONFIG_FILE",
        "TF_IN_AUTOMATION",
        "CHECKPOINT_DISABLE",
        "TF_DATA_DIR",
        "TF_PLUGIN_CACHE_DIR",
    }
