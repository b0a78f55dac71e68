# ruff: noqa: F811
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_runs import PLAY, Ledger, Run, home, ledger, run  # noqa: F401

from exocomp.cli import main
from exocomp.errors import BY_CODE, Bug, ExocompError, NoDaemon, NotFound
from exocomp.protocol import queries as q

BAD = [
    (["nope"], "unknown command"),
    (["provision", "nope"], "unknown command"),
    (["provision", "run"], "requires an argument"),
    (["provision", "run", "edge", PLAY, "more"], "too many arguments: 'more'"),
    (["provision", "run", "edge", PLAY, "--nope"], "unknown option"),
    (["provision", "run", "edge", "none.yml"], "none.yml"),
    (["provision", "run", "edge", "."], "directory"),
    (["provision", "run", "edge", PLAY, "--ssh-wait", "soon"], "'soon'"),
    (["provision", "run", "edge", PLAY, "--ssh-wait", "0s"], "'0s'"),
    (["provision", "run", "edge", PLAY, "--extra-vars", "a=b"], "not a JSON object"),
    (["provision", "run", "edge", PLAY, "--ssh-identity", "/"], "directory"),
    (["provision", "run", "edge", PLAY, "--onboard-playbook", "/dev/null"], "not a regular file"),
    (["provision", "run", "edge", PLAY, "--output", "xml"], '"xml"'),
    (["provision", "list", "--limit", "0"], "--limit 0"),
    (["provision", "list", "--limit", "many"], '"many"'),
    (["provision", "cancel"], "requires an argument"),
    (["host", "onboard", "h", "--port", "0"], "--port 0"),
    (["host", "onboard", "h", "--port", "70000"], "--port 70000"),
    (["workspace", "add", "a/b", "."], "'a/b'"),
    (["workspace", "add", "edge", "none"], "does not exist"),
    (["workspace", "add", "edge", PLAY], "is not a directory"),
    (["workspace", "add", "edge", ".", "--engine", "pulumi"], '"pulumi"'),
    (["workspace", "add", "edge", ".", "--var", "x"], "'x'"),
    (["workspace", "add", "edge", ".", "--var-file", "none"], "none"),
    (["workspace", "destroy", "edge"], "--yes"),
    (["workspace", "remove", "edge"], "--yes"),
    (["serve", "--workers", "0"], "--workers 0"),
    (["serve", "--workers", "x"], '"x"'),
    (["events", "--since", "when"], "'when'"),
    (["provision", "status", "\udce9"], "not UTF-8"),
    (["--output"], "--output"),
    (["help", "nope"], "unknown command"),
    (["config", "show", "--json=maybe"], "maybe"),
]


@pytest.mark.parametrize(
    ("argv", "words"), BAD, ids=[" ".join(argv).encode("utf-8", "replace").decode() for argv, _ in BAD]
)
def test_wrong_usage_is_a_line_and_a_hint_and_exit_2(run: Run, argv: list[str], words: str) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert words in err
    assert len(err.splitlines()) <= 2


def test_without_a_daemon_it_is_exit_3_and_what_to_do(run: Run, home: Path) -> None:
    for argv in (
        ("provision", "run", "edge", PLAY),
        ("provision", "run", "edge", PLAY, "--wait"),
        ("provision", "watch"),
        ("provision", "cancel", "wf"),
        ("workspace", "apply", "edge"),
        ("host", "onboard", "web1"),
        ("fleet-key", "show"),
        ("events", "--follow"),
        ("--socket", f"{home}/other", "provision", "list"),
    ):
        code, out, err = run(*argv)
        assert (code, out) == (3, ""), argv
        first, second = err.splitlines()
        assert first.startswith(f"error: no daemon answers at {home}/")
        assert second == "hint: start one: `exocomp serve`"


@pytest.mark.parametrize("kind", BY_CODE.values())
def test_every_error_has_its_documented_exit_code(run: Run, ledger: Ledger, kind: type[ExocompError]) -> None:
    def refuse(query: Any) -> Any:
        raise kind("it\nwent wrong", hint="try this")

    ledger.answers[q.ShowWorkflow] = refuse
    code, out, err = run("provision", "status")
    assert (code, out, err) == (kind.exit_code, "", "error: it went wrong\nhint: try this\n")
    assert run("help", "exit-codes")[1].splitlines()[kind.exit_code].startswith(str(kind.exit_code))


def test_a_bug_is_not_shown_as_a_persons_mistake(ledger: Ledger) -> None:
    def broken(query: Any) -> Any:
        raise Bug("impossible")

    ledger.answers[q.ShowWorkflow] = broken
    with pytest.raises(Bug):
        main.main(["provision", "status"])


def test_ctrl_c_before_anything_began_is_exit_130(run: Run, ledger: Ledger) -> None:
    def interrupt(query: Any) -> Any:
        raise KeyboardInterrupt

    ledger.answers[q.ShowWorkflow] = interrupt
    assert run("provision", "status") == (130, "", "interrupted\n")


def commands(app: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name in app:
        if not name.startswith("-"):
            below = commands(app[name], (*path, name))
            found += below or [(*path, name)]
    return found


@pytest.mark.parametrize("words", commands(main.make_app()), ids=" ".join)
def test_every_command_has_help_with_an_example(run: Run, words: tuple[str, ...]) -> None:
    code, out, _ = run(*words, "--help")
    assert code == 0
    if words != ("help",):
        assert "For example:" in out
        assert f"exocomp {' '.join(words)}" in out


def test_the_list_of_commands_tells_what_each_is_for(run: Run) -> None:
    for argv in ((), ("--help",), ("help",)):
        told = dict(re.findall(r"^│ ([a-z-]+) +(\S[^│]+?) *│$", run(*argv)[1], re.MULTILINE))
        assert main.NOUNS.keys() <= told.keys(), argv


def test_the_help_shows_no_default_that_says_nothing(run: Run) -> None:
    out = run("provision", "run", "--help")[1]
    assert re.findall(r"\[default: ([^]]*)\]", out) == ["5m", "text"]


def test_an_unknown_command_shows_all_the_others_or_where_they_are(run: Run) -> None:
    assert run("nope")[2] == 'error: unknown command "nope"\nhint: see `exocomp --help`\n'
    assert "retry\n" in run("provision", "nope")[2]


def test_help_and_version_need_no_daemon(run: Run) -> None:
    assert run("--version")[0] == 0
    assert "provision" in run()[1]
    assert "130" in run("help", "exit-codes")[1]
    assert "--ssh-wait" in run("help", "provision", "run")[1]


def test_reading_imports_neither_trio_nor_rich(home: Path) -> None:
    code = (
        "import sys; from exocomp.cli.main import main; code = main(['provision', 'status']);"
        "print(code, sorted({'trio', 'rich', 'asyncssh', 'ansible'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "5 []\n", done.stderr


def test_a_closed_pipe_is_quiet(home: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "exocomp.cli.main", "config", "show"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (main.PIPE_CLOSED, b"")


def test_a_named_socket_alone_means_that_daemon(run: Run, home: Path) -> None:
    assert run("provision", "list", "--socket", "none")[0] == NoDaemon.exit_code
    assert run("provision", "list", "--socket", "none", "--data-dir", str(home / "e"))[0] == NotFound.exit_code
