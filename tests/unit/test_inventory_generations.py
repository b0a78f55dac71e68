"""Generations as files: immutable, private, checked before use."""

import stat
from pathlib import Path
from typing import Any

import pytest

from exocomp.config import Layout
from exocomp.errors import Conflict, ExocompError, NotFound, WrongUsage
from exocomp.inventory import generations
from exocomp.model import Generation, Host

CONTENT = {"all": {"hosts": {"wëb": {"ansible_host": {"__ansible_unsafe": "192.0.2.1"}}, "a": None}}}
WEB = Host(name="wëb", address="192.0.2.1")


def generation(tmp_path: Path, *, hosts: tuple[Host, ...] = (WEB,), content: dict[str, Any] = CONTENT) -> Generation:
    path, digest = generations.write(content, tmp_path / "generations")
    return Generation(inventory="tf:edge", number=3, path=str(path), digest=digest, hosts=hosts, created_at=0.0)


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_a_generation_is_a_private_file_named_by_its_digest(tmp_path: Path) -> None:
    file, digest = generations.write(CONTENT, tmp_path / "new")
    assert file == tmp_path / "new" / f"{digest}.json"
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    assert "wëb" in file.read_text("utf-8")
    assert list(file.parent.iterdir()) == [file]


def test_the_same_content_is_the_same_file_and_another_order_is_not(tmp_path: Path) -> None:
    first, other = {"b": None, "a": None}, {"a": None, "b": None}
    assert generations.write(first, tmp_path) == generations.write(dict(first), tmp_path)
    assert generations.write(first, tmp_path) != generations.write(other, tmp_path)


def test_a_damaged_generation_is_written_again(tmp_path: Path) -> None:
    file, digest = generations.write(CONTENT, tmp_path)
    file.write_text("{")
    assert generations.write(CONTENT, tmp_path) == (file, digest)
    assert file.read_text() != "{"


def test_publishing_swaps_the_standing_file_and_keeps_it_private(tmp_path: Path) -> None:
    standing = tmp_path / "edge.json"
    old, new = generation(tmp_path), generation(tmp_path, content={"all": None})
    generations.publish(Path(old.path), standing)
    inode = standing.stat().st_ino
    generations.publish(Path(new.path), standing)
    assert standing.stat().st_ino != inode
    assert standing.read_bytes() == Path(new.path).read_bytes()
    assert mode(standing) == 0o600
    generations.check(new, standing)


def test_a_lost_standing_file_is_not_found_and_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as refusal:
        generations.check(generation(tmp_path), tmp_path / "edge.json")
    assert str(tmp_path / "edge.json") in refusal.value.what
    assert "workspace apply edge" in refusal.value.hint


def test_an_altered_standing_file_is_a_conflict(tmp_path: Path) -> None:
    latest, standing = generation(tmp_path), tmp_path / "edge.json"
    generations.publish(Path(latest.path), standing)
    standing.write_text(standing.read_text() + " ")
    with pytest.raises(Conflict, match=r"generation 3 any more: .*edge\.json"):
        generations.check(latest, standing)


def test_a_standing_path_that_is_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ExocompError, match="cannot be read"):
        generations.check(generation(tmp_path), tmp_path)


def test_a_run_gets_a_private_copy_of_exactly_its_generation(tmp_path: Path) -> None:
    latest = generation(tmp_path)
    copy = generations.private_copy(latest, tmp_path / "job")
    assert copy == tmp_path / "job" / "inventory.json"
    assert (copy.read_bytes(), mode(copy)) == (Path(latest.path).read_bytes(), 0o600)
    Path(latest.path).write_text("{}")
    with pytest.raises(Conflict):
        generations.private_copy(latest, tmp_path / "job")
    Path(latest.path).unlink()
    with pytest.raises(NotFound):
        generations.private_copy(latest, tmp_path / "job")


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "edge.json").symlink_to(victim)
    generations.publish(Path(generation(tmp_path).path), tmp_path / "edge.json")
    assert victim.read_text() == "kept"


def test_a_diff_names_who_joined_left_and_moved(tmp_path: Path) -> None:
    stays, gone, new = (Host(name=name, address=name) for name in ("stays", "gone", "new"))
    moves = [Host(name="m", address="a"), Host(name="m", address="a", port=2222)]
    old = generation(tmp_path, hosts=(gone, stays, moves[0]))
    latest = generation(tmp_path, hosts=(stays, moves[1], new))
    assert generations.diff(old, latest) == generations.Diff(
        joined=(new,), left=(gone,), moved=((moves[0], moves[1]),)
    )
    assert generations.diff(old, old) == generations.Diff()


@pytest.mark.parametrize("change", [{"address": "b"}, {"port": 23}, {"user": "x"}, {"connection": "local"}])
def test_whatever_is_dialled_otherwise_is_a_move(tmp_path: Path, change: dict[str, Any]) -> None:
    before = Host(name="m", address="a")
    after = Host(**{"name": "m", "address": "a", **change})
    old, new = generation(tmp_path, hosts=(before,)), generation(tmp_path, hosts=(after,))
    assert generations.diff(old, new).moved == ((before, after),)


def test_names_and_paths_belong_together() -> None:
    layout = Layout(Path("/var/lib/exocomp"))
    assert generations.inventory_name("edge") == "tf:edge"
    assert generations.workspace_of("tf:edge") == "edge"
    assert str(generations.standing_path(layout, "tf:edge")) == "/var/lib/exocomp/inventories/edge.json"
    assert generations.generations_path(layout, "tf:edge") != generations.standing_path(layout, "tf:edge")


@pytest.mark.parametrize("name", ["tf:", "tf:../x", "tf:a/b", "tf:.x", "tf:-x", "tf:a\n", "tf:" + "a" * 65])
def test_a_name_that_is_no_safe_file_name_is_refused(name: str) -> None:
    with pytest.raises(WrongUsage, match="names no inventory"):
        generations.standing_path(Layout(Path("/x")), name)


def test_the_captured_sentence_is_the_missions() -> None:
    message = generations.captured_message(2, Path("/x/edge.json"), 0)
    assert message == "captured 2 output(s) to inventory /x/edge.json naming 0 host(s)"


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "-x", "a\n", "TF:edge", "a" * 65])
def test_a_name_for_a_file_of_ones_own_is_refused_when_it_is_no_safe_file_name(name: str) -> None:
    with pytest.raises(WrongUsage, match="is not usable"):
        generations.standing_path(Layout(Path("/x")), name)


def test_an_inventory_of_ones_own_never_shares_a_path_with_a_workspaces() -> None:
    layout = Layout(Path("/x"))
    for own, space in (("edge", "tf:edge"), ("generations", "tf:own"), ("own", "tf:generations")):
        paths = [
            path(layout, name)
            for name in (own, space)
            for path in (generations.standing_path, generations.generations_path)
        ]
        assert len(set(paths)) == 4
