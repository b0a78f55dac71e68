"""How a job lives in its jail: its birth, its exit, the way down, and the shim's death."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from exocomp.protocol.jobs import Command
from exocomp.sandbox import procs, records
from tests.attempts import alive, hostile, sh, until
from tests.sandbox.people import ENV, TIERS, Person, jailed

BORN = """
import json, os, resource, signal, sys
print(json.dumps({
    "env": dict(os.environ),
    "argv": sys.argv[1:],
    "fds": [fd for fd in range(3, 1000) if os.path.exists(f"/proc/self/fd/{fd}")],
    "stdin": os.read(0, 1).decode(),
    "umask": os.umask(0),
    "core": resource.getrlimit(resource.RLIMIT_CORE),
    "ignored": [n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "cwd": os.getcwd(),
}))
"""


def processes_of(directory: Path) -> list[int]:
    """Whose environment carries the attempt's mark."""
    mark = f"{records.MARK}={directory}".encode()
    found = []
    for process in procs.running().values():
        try:
            environ = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if mark in environ.split(b"\0"):
            found.append(process.pid)
    return found


def cmdlines(pids: list[int]) -> bytes:
    return b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids)


def environs(pids: list[int]) -> bytes:
    return b"".join(Path(f"/proc/{pid}/environ").read_bytes() for pid in pids)


@pytest.mark.parametrize("tier", TIERS)
def test_a_job_is_born_with_what_its_spec_says_and_nothing_else(person: Person, tier: str) -> None:
    with person.shim() as shim:
        python = (person.python, "-I", "-S", "-c")
        command = Command(name="job", argv=(*python, BORN, "one", ""))
        # In degraded /proc is the machine's own, in enforcing that of the job.
        read = (*person.jail(shim.directory / "home").read, "/proc")
        execute = (*person.jail(shim.directory / "home").execute, person.python)
        jailed(
            person,
            shim,
            command,
            tier=tier,
            env={**ENV, "TOKEN": "s3cr3t"},
            read=read,
            execute=execute,
            preexec_fn=hostile if person.is_me else None,
        )
        assert shim.end().code == 0, shim.log
        assert json.loads(shim.log) == {
            "env": {**ENV, "TOKEN": "s3cr3t", records.MARK: str(shim.directory)},
            "argv": ["one", ""],
            "fds": [],
            "stdin": "",
            "umask": 0o077,
            "core": [0, 0],
            "ignored": [signal.SIGPIPE, signal.SIGXFSZ],  # as every Python starts
            "blocked": [],
            "cwd": str(shim.directory / "home"),
        }


def test_policy_and_secrets_are_in_no_argv_and_no_environment_outside_the_job(person: Person) -> None:
    with person.shim() as shim:
        jailed(person, shim, sh("echo up; exec sleep 30"), env={**ENV, "TOKEN": "s3cr3t"})
        until(lambda: (shim.directory / records.LOG).exists() and shim.log == b"up\n")
        pids = processes_of(shim.directory)
        assert len(pids) == 3  # bwrap, its init, the job; the shim of this test was started without the mark
        assert b"s3cr3t" not in cmdlines(pids)
        job = max(pids)
        assert b"s3cr3t" in environs([job])
        assert b"s3cr3t" not in environs([pid for pid in pids if pid != job])


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 3", 3), ("exit 125", 125), ("kill -TERM $$", -signal.SIGTERM), ("kill -SEGV $$", -signal.SIGSEGV)],
)
def test_exit_codes_and_signals_pass_through(person: Person, tier: str, script: str, code: int) -> None:
    with person.shim() as shim:
        jailed(person, shim, sh(script), tier=tier)
        assert (shim.end().code, shim.log) == (code, b"")


@pytest.mark.parametrize("tier", TIERS)
def test_a_program_that_is_absent_or_outside_the_view_is_not_found(person: Person, tier: str) -> None:
    with person.shim() as shim:
        jailed(person, shim, Command(name="job", argv=("no-such-program",)), tier=tier)
        assert shim.end().code == 127
        assert b"cannot run 'no-such-program'" in shim.log
    with person.shim() as shim:
        outside = person.write(shim.directory / "program", "#!/bin/sh\n")
        outside.chmod(0o700)
        jailed(person, shim, Command(name="job", argv=(str(outside),)), tier=tier)
        assert shim.end().code == (127 if tier == "enforcing" else 126)


def test_output_is_kept_whole_and_stdout_goes_where_the_command_says(person: Person) -> None:
    with person.shim() as shim:
        jailed(person, shim, sh("head -c 1000000 /dev/zero; echo err >&2", stdout="outputs.json"))
        assert shim.end().code == 0
        assert (shim.directory / "outputs.json").read_bytes() == bytes(1000000)
        assert shim.log == b"err\n"


@pytest.mark.parametrize("tier", TIERS)
def test_a_cancel_reaches_the_job_which_may_finish_its_work(person: Person, tier: str) -> None:
    with person.shim() as shim:
        script = "trap 'echo saving; sleep 0.3; echo saved; exit 7' INT; echo up; while :; do sleep 0.05; done"
        jailed(person, shim, sh(script), tier=tier, grace_s=20, preexec_fn=hostile if person.is_me else None)
        until(lambda: (shim.directory / records.LOG).exists() and b"up\n" in shim.log)
        assert shim.process is not None
        shim.process.terminate()
        ended = shim.end()
        assert (ended.code, ended.cancelled) == (7, True)
        assert shim.log == b"up\nsaving\nsaved\n"


def test_a_cancel_before_the_first_instruction_of_the_job_is_not_lost(person: Person) -> None:
    for pause_s in (0.0, 0.02, 0.04, 0.06, 0.08):
        with person.shim() as shim:
            jailed(person, shim, Command(name="job", argv=("sleep", "20")), grace_s=15)
            until(lambda shim=shim: (shim.directory / records.SHIM).exists())
            time.sleep(pause_s)
            assert shim.process is not None
            shim.process.terminate()
            ended = shim.end()
            assert (ended.code, ended.cancelled) == (-signal.SIGINT, True), shim.log


def test_a_job_that_ignores_everything_is_killed_in_the_end(person: Person) -> None:
    with person.shim() as shim:
        jailed(person, shim, sh("trap '' INT TERM; echo up; while :; do sleep 0.05; done"), grace_s=0.1)
        until(lambda: (shim.directory / records.LOG).exists() and b"up\n" in shim.log)
        assert shim.process is not None
        shim.process.terminate()
        assert shim.end().code == -signal.SIGKILL
        assert processes_of(shim.directory) == []


def test_nothing_of_a_job_outlives_its_command(person: Person) -> None:
    with person.shim() as shim:
        jailed(person, shim, sh("setsid sh -c 'setsid sleep 60 & sleep 60' & echo out"))
        assert shim.end().code == 0
        assert processes_of(shim.directory) == []


def test_the_shims_death_takes_the_whole_namespace_down_also_who_left_the_session(person: Person) -> None:
    with person.shim() as shim:
        jailed(person, shim, sh("setsid sh -c 'setsid sleep 60 & echo up; sleep 60' & wait"))
        until(lambda: (shim.directory / records.LOG).exists() and b"up\n" in shim.log)
        pids = until(lambda: len(found := processes_of(shim.directory)) >= 5 and found)
        assert shim.process is not None
        shim.process.kill()
        shim.process.wait()
        until(lambda: not any(alive(pid) for pid in pids))
        assert not (shim.directory / records.EXIT).exists()


def test_a_jailed_job_lives_longer_than_any_thread_that_started_it(person: Person) -> None:
    if not person.is_me:
        pytest.skip("once is enough")
    with person.shim() as shim:
        jailed(person, shim, sh("sleep 10.5; echo alive"))
        assert shim.end().code == 0
        assert shim.log == b"alive\n"
