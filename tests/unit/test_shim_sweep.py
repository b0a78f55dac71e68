"""The sweep of a lost attempt: it finds every process of it and nobody else's."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from exocomp.sandbox import procs, records
from exocomp.sandbox.sweep import sweep
from tests.attempts import alive, pid_in, until


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "attempt"
    directory.mkdir(mode=0o700)
    yield directory
    sweep(directory)


def run(directory: Path, script: str, **env: str) -> None:
    """The script's shell has ended when this returns; what it left behind is nobody's child."""
    mark = {"PATH": os.environ["PATH"], records.MARK: str(directory)}
    subprocess.run(["sh", "-c", script], cwd=directory, env={**mark, **env}, check=True, stderr=subprocess.DEVNULL)


def test_a_grandchild_that_left_its_session_is_killed(directory: Path) -> None:
    run(directory, "setsid sh -c 'echo $$ > a; exec sleep 60' & setsid sh -c 'echo $$ > b; exec sleep 60' &")
    pids = [pid_in(directory / name) for name in "ab"]
    assert sweep(directory) == 2
    assert not any(map(alive, pids))
    assert sweep(directory) == 0


def test_a_child_that_cleared_its_environment_goes_with_its_parent(directory: Path) -> None:
    run(directory, "setsid sh -c 'env -i sh -c \"echo \\$\\$ > a; sleep 60\"; :' &")
    pid = pid_in(directory / "a")
    assert sweep(directory) >= 2
    assert not alive(pid)


def test_processes_of_another_attempt_are_left_alone(directory: Path) -> None:
    """One whose number merely begins alike, and one that only works in the directory."""
    run(directory, "setsid sh -c 'echo $$ > a; exec sleep 60' &", **{records.MARK: f"{directory}0"})
    run(directory, "env -i setsid sh -c 'echo $$ > b; exec /bin/sleep 60' &")
    pids = [pid_in(directory / name) for name in "ab"]
    try:
        assert sweep(directory) == 0
        assert all(map(alive, pids))
    finally:
        for pid in pids:
            os.kill(pid, 9)


def test_a_symlinked_spelling_of_the_directory_finds_the_same_processes(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(directory)
    run(directory, "setsid sh -c 'echo $$ > a; exec sleep 60' &")
    pid = pid_in(directory / "a")
    assert sweep(tmp_path / "link") == 1
    assert not alive(pid)


def test_processes_that_multiply_are_hunted_down(directory: Path) -> None:
    run(directory, "setsid sh -c 'while :; do setsid sleep 0.3 & sleep 0.005; done' & sleep 0.1")
    assert sweep(directory) > 2
    assert sweep(directory) == 0


def test_the_start_time_tells_two_owners_of_a_pid_apart() -> None:
    me = procs.look_up(os.getpid())
    assert me is not None
    assert procs.open_same(me.pid, me.started + 1) is None
    fd = procs.open_same(me.pid, me.started)
    assert fd is not None
    os.close(fd)


def test_a_name_with_blanks_and_parentheses_is_no_obstacle(directory: Path) -> None:
    program = directory / "a) R 1 ("
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "60"]) as process:
        try:
            until(lambda: (found := procs.look_up(process.pid)) and found.parent == os.getpid())
        finally:
            process.kill()


@pytest.mark.lab
def test_the_control_master_of_a_real_ssh_is_killed_although_it_hides_its_environment(directory: Path) -> None:
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", directory / name], check=True)
    sshd = f"/usr/sbin/sshd -i -f /dev/null -h {directory}/host -o UsePAM=no -o StrictModes=no -o PermitRootLogin=yes"
    run(
        directory,
        f"ssh -F none -i user -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=known"
        f" -o ControlMaster=auto -o ControlPersist=60 -o ControlPath={directory}/cm"
        f" -o ProxyCommand='{sshd} -o AuthorizedKeysFile={directory}/user.pub' root@machine true",
    )
    check = ["ssh", "-F", "none", "-o", f"ControlPath={directory}/cm", "-O", "check", "machine"]
    master = int(
        subprocess.run(check, capture_output=True, text=True, check=True).stderr.split("pid=")[1].split(")")[0]
    )
    assert records.MARK.encode() not in Path(f"/proc/{master}/environ").read_bytes()
    assert sweep(directory) >= 1
    assert not alive(master)
