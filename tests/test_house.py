"""The house rules of the source tree: floors, fences, sizes, names, the error tree, wire tags and documents."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from exocomp import errors
from exocomp.approval import ApprovalState
from exocomp.model import MOVES, AttemptState, RunState, StepState, Trust
from exocomp.protocol import approving, codec, commands, converging, events, fired, jobs, queries
from exocomp.protocol.event import Event

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "exocomp"
DOCS = ROOT / "docs"
SOURCES = sorted(PACKAGE.rglob("*.py"))
NAMES = [str(path.relative_to(ROOT)) for path in SOURCES]
TREES = {name: ast.parse((ROOT / name).read_text("utf-8")) for name in NAMES}

# Lower floors first; a module imports only from floors below its own, or from its own room.
FLOORS = (
    {"errors", "model", "approval", "ids", "crash"},
    {"protocol", "config", "staging", "private_file"},
    {"store", "workflows", "inventory", "ssh", "secrets", "drivers", "sandbox"}
    | {"schedule", "triggers", "runbooks", "vendoring"},
    {"actors"},
    {"supervisor"},
    {"daemon"},
    {"client", "cli"},
)
# Within a floor these may look sideways: words at words, speech at settings, doors at doors.
SOCIABLE = ({"errors", "model", "ids", "crash"}, {"protocol", "config"}, {"client", "cli"})
FENCES = {
    "apsw": ("exocomp/store/",),
    "asyncssh": ("exocomp/ssh/",),
    "trio_websocket": ("exocomp/client.py", "exocomp/actors/gateway.py"),
    "cyclopts": ("exocomp/cli/",),
    "sqlite_utils": ("exocomp/cli/",),
}
TRIO_FREE = ("store", "workflows", "inventory", "ssh", "secrets", "drivers", "sandbox", "vendoring", "protocol")
BANNED = re.compile(r"manager|handler|helper|utils?$|data$|info$", re.IGNORECASE)


def imports() -> Iterator[tuple[str, int, str]]:
    """(file, line, dotted module) of each import; `from a import b` counts as a.b."""
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((name, node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}:{node.lineno} imports relatively"
                yield from ((name, node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


IMPORTS = list(imports())


def room(dotted: str) -> str:
    """The room of `exocomp.<room>…`; empty for the package itself and for other packages."""
    parts = dotted.split(".")
    known = {name.split("/")[1].removesuffix(".py") for name in NAMES}
    return parts[1] if parts[0] == "exocomp" and len(parts) > 1 and parts[1] in known else ""


def floor(name: str) -> int:
    """Raises StopIteration for a room that stands on no floor: give it one in FLOORS."""
    return -1 if name == "__init__" else next(number for number, rooms in enumerate(FLOORS) if name in rooms)


def members(union: object) -> set[type]:
    return set(get_args(union))


def structs(module: object) -> set[type]:
    """Tagged structs that the module itself defines."""
    return {
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, msgspec.Struct)
        and value.__module__ == module.__name__  # type: ignore[attr-defined]
        and value.__struct_config__.tag is not None
    }


COMMANDS = structs(commands) | {approving.DecideApproval}
EVENTS = {kind for module in (events, fired, approving) for kind in structs(module) if issubclass(kind, Event)}
QUERIES = {kind for module in (queries, converging, approving) for kind in structs(module)} - COMMANDS - EVENTS


def test_a_module_imports_only_downward_or_from_its_own_room() -> None:
    wrong = []
    for name, line, dotted in IMPORTS:
        here, there = name.split("/")[1].removesuffix(".py"), room(dotted)
        sideways = any({here, there} <= rooms for rooms in SOCIABLE)
        if there and there != here and not sideways and floor(there) >= floor(here):
            wrong.append(f"{name}:{line} ({here}) imports {dotted}")
    assert wrong == []


def test_a_library_is_imported_only_inside_its_fence() -> None:
    fenced = [(name, line, dotted) for name, line, dotted in IMPORTS if dotted.split(".")[0] in FENCES]
    assert [each for each in fenced if not each[0].startswith(FENCES[each[2].split(".")[0]])] == []


def test_rooms_know_nothing_of_trio() -> None:
    assert [each for each in IMPORTS if each[0].split("/")[1] in TRIO_FREE and each[2].split(".")[0] == "trio"] == []


def test_the_shim_stands_on_the_standard_library_alone() -> None:
    known = (*sys.stdlib_module_names, "exocomp")
    assert [
        each for each in IMPORTS if each[0].split("/")[1] == "sandbox" and each[2].split(".")[0] not in known
    ] == []


def test_no_file_is_longer_than_300_lines() -> None:
    files = [*SOURCES, *(ROOT / "tests" / "lab").rglob("*.py"), Path(__file__)]
    assert [path.name for path in files if len(path.read_text("utf-8").splitlines()) > 300] == []


def test_a_module_says_what_it_owns_and_nothing_has_a_vague_name() -> None:
    silent = [name for name, tree in TREES.items() if tree.body and not ast.get_docstring(tree)]
    assert silent == []
    classes = [node.name for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert [name for name in [*classes, *(Path(name).stem for name in NAMES)] if BANNED.search(name)] == []


def test_nothing_is_left_for_later_and_no_failure_is_swallowed() -> None:
    assert [path for path in SOURCES if re.search(r"\b(TODO|FIXME|XXX)\b", path.read_text("utf-8"))] == []
    swallowed = [
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and isinstance(node.body[0], ast.Pass)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
    ]
    assert swallowed == []


def test_the_error_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    drawn: dict[str, str] = {}
    parent = ""
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"([├└]── )?([A-Z]\w+)  ", line):
            branch, name = found.groups()
            drawn[name] = parent if branch else ""
            parent = parent if branch else name
    classes = {
        name: base if (base := kind.__bases__[0].__name__) != "Exception" else ""
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert drawn == classes


def test_every_error_with_a_code_can_travel_and_exit_codes_are_those_of_the_tree() -> None:
    documented = {name: int(code) for name, code in re.findall(r"(\w+) .*\(exit (\d)\)", errors.__doc__ or "")}
    assert {kind.__name__: kind.exit_code for kind in errors.BY_CODE.values()} == documented
    assert {code: kind.code for code, kind in errors.BY_CODE.items()} == {code: code for code in errors.BY_CODE}


@pytest.mark.parametrize(
    ("defined", "union"),
    [
        (EVENTS, members(events.AnyEvent)),
        (COMMANDS, members(commands.AnyCommand) | members(commands.AnyReply)),
        (QUERIES, members(queries.AnyQuery) | members(queries.AnyAnswer)),
        (structs(jobs), members(jobs.JobSpec)),
        (structs(codec), members(codec.FromClient) | members(codec.FromDaemon)),
    ],
    ids=["events", "commands", "queries", "jobs", "frames"],
)
def test_every_message_is_in_its_union_and_every_tag_is_its_own(defined: set[type], union: set[type]) -> None:
    assert defined == union
    tags = [kind.__struct_config__.tag for kind in union]  # type: ignore[attr-defined]
    assert len(set(tags)) == len(tags)
    for tag in tags:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", tag)


def test_commands_are_imperative_and_events_in_the_past_tense() -> None:
    past = re.compile(r"(ed|Forgotten|Lost|Left)$")
    assert [kind.__name__ for kind in members(events.AnyEvent) if not past.search(kind.__name__)] == []
    assert [kind.__name__ for kind in members(commands.AnyCommand) if past.search(kind.__name__)] == []


def test_states_are_the_same_words_in_python_and_in_sql() -> None:
    sql = "\n".join(path.read_text("utf-8") for path in sorted((PACKAGE / "store" / "migrations").glob("*.sql")))

    def checked(column: str, table: str) -> set[str]:
        body = re.search(rf"CREATE TABLE {table} \((.*?)\n\) STRICT", sql, re.DOTALL)
        assert body is not None
        found = re.search(rf"\b{column}\s+TEXT NOT NULL CHECK \(\s*{column} IN \(([^)]*)\)", body[1])
        assert found is not None
        return set(re.findall(r"'(\w+)'", found[1]))

    assert checked("state", "step") == set(StepState)
    assert checked("state", "workflow") == checked("state", "job") == set(RunState)
    assert checked("state", "attempt") == set(AttemptState)
    assert checked("trust", "pin") == set(Trust)
    assert checked("kind", "job") == {kind.__struct_config__.tag for kind in members(jobs.JobSpec)}  # type: ignore[attr-defined]
    assert checked("state", "approval") == set(ApprovalState)
    inserted = re.findall(r"INSERT INTO move VALUES(.*?);", sql, re.DOTALL)
    moves = set(re.findall(r"\('(\w+)', '(\w+)'\)", "".join(inserted)))
    assert moves == {(old.value, new.value) for old, after in MOVES.items() for new in after}


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in sorted((PACKAGE / "store" / "migrations").glob("*.sql"))]
    assert numbers[0] == 1
    assert all(right == left + 1 for left, right in pairwise(numbers))


def test_every_event_is_documented_and_no_other() -> None:
    text = (DOCS / "reference" / "events.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(listed) == sorted(kind.__struct_config__.tag for kind in members(events.AnyEvent))  # type: ignore[attr-defined]
    for kind in members(events.AnyEvent):
        tag = kind.__struct_config__.tag  # type: ignore[attr-defined]
        row = re.search(rf"^\| `{tag}` \|[^|]*\|([^|]*)\|", text, re.MULTILINE)
        assert row is not None
        fields = [name for name in kind.__struct_fields__ if name not in ("workflow", "workspace")]  # type: ignore[attr-defined]
        assert re.findall(r"`(\w+)`", row[1]) == fields, f"fields of {tag}"


def test_every_exit_code_is_documented() -> None:
    text = (DOCS / "reference" / "exit-codes.md").read_text("utf-8")
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert listed == {0, 130} | {kind.exit_code for kind in errors.BY_CODE.values()}


def test_documents_link_only_to_files_that_are_there() -> None:
    for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.relative_to(ROOT)} links to {target}"
