"""Orders run by the real engine: the working copy, init only when needed, variables, state, and the user's tree."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from exocomp.drivers.tofu import outcome, workspace
from exocomp.errors import Conflict
from exocomp.protocol.jobs import TofuJob, Verb
from tests.tofu_runs import PLAIN, Bench, listing, require_engine, run_spec, write

FULL = ["init", "initialised", "plan", "state", "apply", "output", "state-after"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    require_engine()
    return Bench(tmp_path)


def test_the_first_apply_does_everything_and_the_second_skips_init(bench: Bench, tmp_path: Path) -> None:
    space = bench.add(write(tmp_path / "m", main=PLAIN))
    first = bench.apply(space)
    assert first.names == FULL
    assert outcome.changes(first.attempt) == (1, 0, 0)
    second = bench.apply(space)
    assert second.names == FULL[2:]
    assert outcome.changes(second.attempt) == (0, 0, 0)
    assert second.values == {"o": "a"}
    before, after = (json.loads((first.attempt / f"state-{when}.json").read_text()) for when in ("before", "after"))
    assert before["lineage"] == ""
    assert after["lineage"]
    assert after["serial"] > before["serial"]
    assert set(after) == {"lineage", "serial"}


def test_state_and_everything_beside_it_is_private(bench: Bench, tmp_path: Path) -> None:
    space = bench.add(write(tmp_path / "m", main=PLAIN))
    bench.apply(space)
    assert (bench.module(space) / "terraform.tfstate").stat().st_mode & 0o777 == 0o600
    ours = [bench.layout.workspaces, *bench.layout.workspaces.rglob("*")]
    assert [path for path in ours if path.stat().st_mode & 0o077] == []


def test_the_users_tree_may_be_read_only_and_stays_as_it_is(bench: Bench, tmp_path: Path) -> None:
    directory = write(tmp_path / "my módule ünd 空", main=PLAIN, nested__main='output "n" { value = 1 }\n')
    with (directory / "main.tf").open("a") as main:
        main.write('module "n" { source = "./nested" }\noutput "n" { value = module.n.n }\n')
    for path in [*directory.rglob("*"), directory]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = listing(directory)
    space = bench.add(directory)
    assert bench.apply(space).values == {"o": "a", "n": 1}
    assert bench.run(space, Verb.PLAN).verdict.ok
    assert bench.run(space, Verb.DESTROY).verdict.ok
    assert listing(directory) == before


def test_modules_beside_the_root_module_and_the_lock_file_in_a_checkout(bench: Bench, tmp_path: Path) -> None:
    write(
        tmp_path,
        live__edge__main='module "a" { source = "../../modules/a" }\noutput "o" { value = module.a.o }\n',
        modules__a__main='module "b" { source = "../b" }\noutput "o" { value = module.b.o }\n',
        modules__b__main='output "o" { value = "deep" }\n',
    )
    space = bench.add(tmp_path / "live" / "edge")
    assert space.root == str(tmp_path)
    assert bench.apply(space).values == {"o": "deep"}
    (tmp_path / "modules" / "b" / "main.tf").write_text('output "o" { value = "deeper" }\n')
    again = bench.apply(space)
    assert again.names[0] == "init"
    assert again.values == {"o": "deeper"}


def test_what_the_user_deletes_goes_and_what_the_engine_made_stays(bench: Bench, tmp_path: Path) -> None:
    made = 'resource "terraform_data" "f" {\n  provisioner "local-exec" { command = "echo made > gen/made.txt" }\n}\n'
    directory = write(tmp_path / "m", main=PLAIN + made, more='output "more" { value = 1 }\n', gen__x="")
    space = bench.add(directory)
    assert bench.apply(space).values == {"o": "a", "more": 1}
    (directory / "more.tf").unlink()
    shutil.rmtree(directory / "gen")
    done = bench.apply(space)
    assert done.values == {"o": "a"}
    assert (bench.module(space) / "gen" / "made.txt").read_text() == "made\n"
    assert not (bench.module(space) / "gen" / "x.tf").exists()


def test_a_file_changed_in_the_copy_is_put_right_and_a_planted_link_is_never_followed(
    bench: Bench, tmp_path: Path
) -> None:
    directory = write(tmp_path / "m", main=PLAIN, sub__main='output "s" { value = 1 }\n')
    space = bench.add(directory)
    bench.apply(space)
    module = bench.module(space)
    outside = tmp_path / "outside"
    outside.mkdir()
    (module / "main.tf").write_text("broken {")
    shutil.rmtree(module / "sub")
    (module / "sub").symlink_to(outside)
    bench.apply(space)
    assert list(outside.iterdir()) == []
    assert (module / "sub" / "main.tf").read_text() == 'output "s" { value = 1 }\n'
    (directory / "sub" / "main.tf").unlink()
    (directory / "sub").rmdir()
    (outside / "main.tf").write_text("mine")
    shutil.rmtree(module / "sub")
    (module / "sub").symlink_to(outside)
    bench.apply(space)
    assert (outside / "main.tf").read_text() == "mine"


def test_init_runs_again_for_what_init_depends_on_only(bench: Bench, tmp_path: Path) -> None:
    directory = write(tmp_path / "m", main=PLAIN)
    space = bench.add(directory)
    bench.apply(space)
    (directory / "notes.txt").write_text("x")
    (directory / "terraform.tfvars").write_text("")
    assert bench.apply(space).names == FULL[2:]
    (directory / "main.tf").write_text(PLAIN + "# edited\n")
    assert bench.apply(space).names == FULL
    shutil.rmtree(bench.layout.workspaces / "edge" / "engine")
    assert bench.apply(space).names == FULL


def test_a_failed_init_is_not_remembered(bench: Bench, tmp_path: Path) -> None:
    space = bench.add(write(tmp_path / "m", main=PLAIN + 'module "m" { source = "./none" }\n'))
    for _ in range(2):
        failed = bench.run(space)
        assert failed.exit.command == "init"
        assert failed.verdict.reason.startswith("init failed: a module can't be installed: ")


def test_a_lock_file_of_the_user_is_used_and_a_generated_one_kept(bench: Bench, tmp_path: Path) -> None:
    directory = write(tmp_path / "m", main=PLAIN)
    space = bench.add(directory)
    bench.apply(space)
    own = bench.module(space) / ".terraform.lock.hcl"
    own.write_text("# generated\n")
    assert bench.apply(space).names == FULL
    assert own.read_text() == "# generated\n"
    (directory / ".terraform.lock.hcl").write_text("# the user's\n")
    bench.apply(space)
    assert own.read_text().startswith("# the user's\n")


def test_a_plan_changes_nothing_and_stops_there(bench: Bench, tmp_path: Path) -> None:
    space = bench.add(write(tmp_path / "m", main=PLAIN))
    done = bench.run(space, Verb.PLAN)
    assert done.verdict.ok
    assert done.names == ["init", "initialised", "plan"]
    assert outcome.changes(done.attempt) == (1, 0, 0)
    assert not (bench.module(space) / "terraform.tfstate").exists()


def test_destroy_takes_away_what_apply_made(bench: Bench, tmp_path: Path) -> None:
    space = bench.add(write(tmp_path / "m", main=PLAIN))
    bench.apply(space)
    done = bench.run(space, Verb.DESTROY)
    assert done.verdict.ok, done.log
    assert outcome.changes(done.attempt) == (0, 0, 1)
    assert done.values == {}
    assert json.loads((bench.module(space) / "terraform.tfstate").read_text())["resources"] == []


def test_a_replacement_counts_as_one_added_and_one_destroyed(bench: Bench, tmp_path: Path) -> None:
    text = 'resource "terraform_data" "x" {\n  triggers_replace = ["%s"]\n}\n'
    directory = write(tmp_path / "m", main=text % "a")
    space = bench.add(directory)
    bench.apply(space)
    write(directory, main=text % "b")
    assert outcome.changes(bench.run(space, Verb.PLAN).attempt) == (1, 0, 1)


def test_override_files_work_and_a_tofu_file_is_for_tofu(bench: Bench, tmp_path: Path) -> None:
    directory = write(tmp_path / "m", main='output "o" { value = 1 }\n', x_override='output "o" { value = 2 }\n')
    (directory / "main.tofu").write_text('output "o" { value = 3 }\n')
    assert bench.apply(bench.add(directory)).values == {"o": 2}


def test_a_local_backend_of_the_user_is_respected(bench: Bench, tmp_path: Path) -> None:
    text = PLAIN + 'terraform {\n  backend "local" {\n    path = "%s"\n  }\n}\n'
    directory = write(tmp_path / "m", main=text % "states/foo.state")
    space = bench.add(directory)
    bench.apply(space)
    assert json.loads((bench.module(space) / "states" / "foo.state").read_text())["resources"]
    assert outcome.changes(bench.apply(space).attempt) == (0, 0, 0)
    elsewhere = tmp_path / "elsewhere" / "x.tfstate"
    other = bench.add(write(tmp_path / "n", main=text % elsewhere), name="other")
    bench.apply(other)
    assert elsewhere.exists()


def test_an_adopted_state_with_a_name_of_its_own_makes_nothing_twice(bench: Bench, tmp_path: Path) -> None:
    text = PLAIN + 'terraform {\n  backend "local" {\n    path = "foo.state"\n  }\n}\n'
    directory = write(tmp_path / "m", main=text)
    first = bench.add(directory, name="first")
    bench.apply(first)
    shutil.copy(bench.module(first) / "foo.state", directory / "foo.state")
    space = bench.add(directory)
    assert workspace.has_own_state(space)
    workspace.adopt_state(space, bench.layout)
    assert outcome.changes(bench.apply(space).attempt) == (0, 0, 0)
    write(directory, main=text.replace('"a"', '"b"'))
    bench.apply(space)
    assert outcome.changes(bench.apply(space).attempt) == (0, 0, 0)
    assert workspace.resource_count(space, bench.layout) == 1


def test_the_state_follows_when_the_root_grows(bench: Bench, tmp_path: Path) -> None:
    directory = write(tmp_path / "infra" / "m", main=PLAIN)
    bench.apply(bench.add(directory))
    (tmp_path / "infra" / ".git").mkdir()
    wider = bench.add(directory)
    assert wider.root == str(tmp_path / "infra")
    assert outcome.changes(bench.apply(wider).attempt) == (0, 0, 0)


def test_an_attempt_after_a_lost_one_says_how_the_state_moved(bench: Bench, tmp_path: Path) -> None:
    directory = write(tmp_path / "m", main=PLAIN)
    space = bench.add(directory)
    bench.run(space, attempt=bench.attempt("job_x", 1))
    write(directory, main=PLAIN.replace('"a"', '"b"'))
    again = bench.run(space, attempt=bench.attempt("job_x", 2))
    assert again.verdict.ok
    assert "the state moved from serial 0 to " in again.log
    assert "the state moved" not in bench.apply(space).log


def test_a_plan_of_an_older_state_is_stale(bench: Bench, tmp_path: Path) -> None:
    directory = write(tmp_path / "m", main=PLAIN)
    space = bench.add(directory)
    done = bench.apply(space)
    apply = next(c for c in done.spec.commands if c.name == "apply")
    spec = type(done.spec)(commands=(apply,), env=done.spec.env, cwd=done.spec.cwd)
    exit = run_spec(spec, done.attempt)
    verdict = outcome.judge(TofuJob(verb=Verb.APPLY, workspace=space), exit, done.attempt)
    assert "the saved plan is stale" in verdict.reason


def test_a_state_that_could_not_be_saved_stops_the_next_run(bench: Bench, tmp_path: Path) -> None:
    space = bench.add(write(tmp_path / "m", main=PLAIN))
    bench.apply(space)
    (bench.module(space) / "errored.tfstate").write_text("{}")
    with pytest.raises(Conflict, match="could not save its state") as caught:
        bench.prepare(space)
    assert "state push errored.tfstate" in caught.value.hint
