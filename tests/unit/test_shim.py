"""The shim as a real process: what it runs, how a job starts, and what is kept of its output."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from exocomp.model import Exit
from exocomp.protocol.jobs import Command
from exocomp.sandbox import procs, records
from tests.attempts import Shim, hostile, open_shim, sh

GLIBC_OWN = 0b11 << 31  # signals 32 and 33: make leaves them ignored, and no program can change that


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Shim]:
    with open_shim(tmp_path) as shim:
        yield shim


def test_a_line_of_a_megabyte_and_bytes_that_are_no_text_arrive_unchanged(shim: Shim) -> None:
    wild = bytes(range(256)) * 4096
    source = shim.directory / "source"
    source.write_bytes(wild)
    shim.run(sh("cat source"), sh("cat source >&2"), sh("cat source", stdout="kept"))
    assert shim.log == wild * 2
    assert (shim.directory / "kept").read_bytes() == wild


def test_stdout_goes_to_its_file_and_stderr_to_the_log_both_private(shim: Shim) -> None:
    ended = shim.run(sh("echo out; echo err >&2", stdout="outputs.json"))
    assert ended.code == 0
    assert (shim.directory / "outputs.json").read_bytes() == b"out\n"
    assert shim.log == b"err\n"
    for name in ("outputs.json", records.LOG, records.SHIM, records.EXIT):
        assert (shim.directory / name).stat().st_mode & 0o777 == 0o600


def test_the_order_of_stdout_and_stderr_is_kept_in_the_log(shim: Shim) -> None:
    shim.run(sh("for i in 1 2 3; do echo o$i; echo e$i >&2; done"))
    assert shim.log == b"o1\ne1\no2\ne2\no3\ne3\n"


def test_commands_stop_at_the_first_code_that_is_not_ok(shim: Shim) -> None:
    ended = shim.run(
        sh("echo 1; exit 2", name="plan", ok=(0, 2)), sh("echo 2; exit 3", name="apply"), sh("echo 3", name="output")
    )
    assert (ended.code, ended.command) == (3, "apply")
    assert shim.log == b"1\n2\n"


def test_a_command_killed_by_a_signal_has_a_negative_code(shim: Shim) -> None:
    assert shim.run(sh("kill -KILL $$")).code == -signal.SIGKILL


@pytest.mark.parametrize(
    ("argv", "code", "why"),
    [
        (("no-such-program",), 127, b"No such file"),
        (("/no/such/program",), 127, b"No such file"),
        (("/etc/passwd",), 126, b"Permission denied"),
        (("/",), 126, b"Permission denied"),
        (("sh", "a\0b"), 126, b"null byte"),
        (("sh", "-c", "x" * 200_000), 126, b"Argument list too long"),
    ],
)
def test_a_program_that_cannot_be_executed_is_a_code_and_a_line(
    shim: Shim, argv: tuple[str, ...], code: int, why: bytes
) -> None:
    assert shim.run(Command(name="job", argv=argv), sh("echo never")).code == code
    assert shim.log.startswith(b"exocomp: cannot run ")
    assert why in shim.log
    assert b"never" not in shim.log


def test_a_missing_working_directory_is_a_code_and_a_line(shim: Shim) -> None:
    assert shim.run(sh("echo never"), cwd="/no/such/place").code == 126
    assert b"/no/such/place" in shim.log


def test_a_program_is_looked_up_in_the_path_of_the_spec(shim: Shim) -> None:
    program = shim.directory / "own-program"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o700)
    assert shim.run(Command(name="job", argv=("own-program",)), env={"PATH": str(shim.directory)}).code == 0
    assert shim.log == b"found\n"


def test_a_job_gets_the_declared_environment_the_mark_and_nothing_else(shim: Shim) -> None:
    shim.run(Command(name="job", argv=("/usr/bin/env",)), env={"A": "é", "B": ""})
    assert set(shim.log.decode().splitlines()) == {"A=é", "B=", f"{records.MARK}={shim.directory}"}


def test_a_job_starts_clean_whatever_the_daemon_was_started_with(shim: Shim) -> None:
    ended = shim.run(
        Command(name="status", argv=("/bin/cat", "/proc/self/status"), stdout="status"),
        Command(name="stat", argv=("/bin/cat", "/proc/self/stat"), stdout="stat"),
        Command(name="fds", argv=("/bin/ls", "-l", "/proc/self/fd"), stdout="fds"),
        preexec_fn=hostile,
    )
    assert ended.code == 0
    status = dict(line.split(":\t", 1) for line in (shim.directory / "status").read_text().splitlines())
    assert (status["SigBlk"], status["Umask"]) == ("0" * 16, "0077")
    assert int(status["SigIgn"], 16) & ~GLIBC_OWN == 0
    pid, _, _, _, group, session = (shim.directory / "stat").read_text().split()[:6]
    assert group == session == pid
    links = dict(line.split()[-3::2] for line in (shim.directory / "fds").read_text().splitlines()[1:])
    assert links.pop("3").endswith("/fd")  # the listing itself
    assert set(links) == {"0", "1", "2"}
    assert links["0"] == "/dev/null"


def test_the_shim_is_known_before_the_first_command_starts(shim: Shim) -> None:
    shim.run(sh("cat shim.json; test ! -e exit.json", stdout="seen"))
    assert shim.process is not None
    seen = json.loads((shim.directory / "seen").read_bytes())
    assert seen == {"pid": shim.process.pid, "starttime": seen["starttime"], "boot_id": procs.boot_id()}


def test_exit_json_is_what_the_model_says(shim: Shim) -> None:
    ended = shim.run(sh("exit 7"))
    assert set(json.loads((shim.directory / records.EXIT).read_bytes())) == set(Exit.__struct_fields__)
    assert ended == Exit(code=7, command="job", ended_at=ended.ended_at)
    assert not [name for name in os.listdir(shim.directory) if name.endswith(".tmp")]


def test_output_that_the_disk_does_not_take_is_no_success_and_blocks_no_job(shim: Shim) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    ended = shim.run(
        sh("head -c 1000000 /dev/zero; echo ended >&2", stdout="kept"), sh("echo next"), preexec_fn=limit
    )
    assert (ended.code, ended.command) == (74, "job")
    assert shim.log == b"ended\nexocomp: kept is incomplete: the disk did not take it\n"


def test_a_full_log_ends_no_job(shim: Shim) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    assert shim.run(sh("head -c 1000000 /dev/zero"), sh("echo x", stdout="kept"), preexec_fn=limit).code == 0
    assert (shim.directory / "kept").read_bytes() == b"x\n"


@pytest.mark.parametrize("plant", ["ln -s {outside} kept", "mkfifo kept", "ln {outside} kept"])
def test_a_planted_file_never_leads_the_output_elsewhere(shim: Shim, tmp_path: Path, plant: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    ended = shim.run(sh(plant.format(outside=outside)), sh("echo x", stdout="kept"))
    assert ended.code == 0
    assert outside.read_text() == "untouched"
    assert (shim.directory / "kept").read_bytes() == b"x\n"
