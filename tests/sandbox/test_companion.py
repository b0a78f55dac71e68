"""The companion of an attempt: there before the first command, outside its jail, gone after the last."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from exocomp.protocol.jobs import Companion
from exocomp.sandbox import companion, records
from exocomp.sandbox.layers import NOT_APPLIED
from tests.attempts import Shim, alive, pid_in, sh, until
from tests.sandbox.people import Person

AGENT = """
import os, signal, socket, sys
fd, directory = int(sys.argv[1]), sys.argv[2]
os.chdir(directory)
with open("env", "w") as file:
    file.write(" ".join(sorted(os.environ)))
with open("agent.pid", "w") as file:
    file.write(str(os.getpid()))
server = socket.socket(socket.AF_UNIX)
server.bind("home/agent.sock")
server.listen()
secret = os.read(fd, 100)
while True:
    link, _ = server.accept()
    link.sendall(secret)
    link.close()
"""
ASK = "import socket; s = socket.socket(1); s.connect('agent.sock'); print(s.recv(100).decode())"


def agent(person: Person, shim: Shim, script: str = AGENT) -> Companion:
    argv = (person.python, "-I", "-S", "-c", script, "{fd}", str(shim.directory))
    return Companion(argv=argv, secret="k3y", ready=str(shim.directory / "home" / "agent.sock"))


def start(person: Person, shim: Shim, *scripts: str, beside: Companion | None = None, **more: Any) -> None:
    home = shim.directory / "home"
    commands = [sh(script, name=f"c{number}") for number, script in enumerate(scripts, 1)]
    jail = person.jail(home, execute=(*person.jail(home).execute, person.python))
    shim.start(*commands, jail=jail, cwd=str(home), companion=beside or agent(person, shim), **more)


def ask(person: Person) -> str:
    return f'{person.python} -I -S -c "{ASK}"'


def test_it_serves_every_command_from_outside_their_jail_and_ends_after_the_last(person: Person) -> None:
    with person.shim() as shim:
        start(person, shim, ask(person), f"{ask(person)}; ls {shim.directory}/agent.pid")
        ended = shim.end()
        assert (ended.code, ended.command) == (2, "c2")
        assert shim.log.startswith(b"k3y\nk3y\n")
        assert (shim.directory / "env").read_text() == f"{records.MARK} LC_ALL PATH"
        assert not alive(pid_in(shim.directory / "agent.pid"))


def test_a_cancel_ends_the_commands_first_and_then_the_companion(person: Person) -> None:
    with person.shim() as shim:
        script = f"ask() {{ {ask(person)}; exit 9; }}; trap ask INT; echo up; while :; do sleep 0.05; done"
        start(person, shim, script, grace_s=20)
        until(lambda: (shim.directory / records.LOG).exists() and b"up\n" in shim.log)
        assert shim.process is not None
        shim.process.terminate()
        ended = shim.end()
        assert (ended.code, ended.cancelled) == (9, True)
        assert shim.log == b"up\nk3y\n"
        assert not alive(pid_in(shim.directory / "agent.pid"))


def test_one_that_ends_before_it_is_ready_lets_nothing_run(person: Person) -> None:
    with person.shim() as shim:
        start(person, shim, "echo ran", beside=agent(person, shim, "import sys; sys.exit('no key')"))
        ended = shim.end()
        assert (ended.code, ended.command) == (NOT_APPLIED, "c1")
        why = b"no key\nexocomp: nothing was run: the companion of its commands ended before it was ready: "
        assert shim.log.startswith(why)
        assert not shim.log.endswith(b"\nran\n")


def test_one_that_is_never_ready_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion, "READY_WITHIN_S", 0.1)
    script = "import time; time.sleep(60)"
    spec = {"argv": [sys.executable, "-I", "-S", "-c", script], "secret": "", "ready": str(tmp_path / "never")}
    beside = companion.Companion(spec, {}, str(tmp_path), 2)
    try:
        with pytest.raises(companion.NotReady, match=r"made no .*/never within 0 s"):
            beside.wait_until_ready(lambda: False)
    finally:
        beside.end()
        os.waitpid(beside.pid, 0)


def test_a_cancel_while_it_comes_up_runs_nothing(person: Person) -> None:
    with person.shim() as shim:
        start(person, shim, "echo ran", beside=agent(person, shim, "import time; time.sleep(60)"))
        until(lambda: (shim.directory / records.SHIM).exists())
        assert shim.process is not None
        shim.process.terminate()
        ended = shim.end()
        assert (ended.code, ended.cancelled, shim.log) == (-signal.SIGINT, True, b"")


def test_its_death_in_mid_run_is_told_and_the_command_goes_on(person: Person) -> None:
    with person.shim() as shim:
        start(person, shim, "echo up; while ! test -e go; do sleep 0.05; done; echo done")
        until(lambda: (shim.directory / records.LOG).exists() and b"up\n" in shim.log)
        os.kill(pid_in(shim.directory / "agent.pid"), signal.SIGKILL)
        until(lambda: b"died" in shim.log)
        person.write(shim.directory / "home" / "go")
        assert shim.end().code == 0
        assert shim.log == b"up\nexocomp: the process beside this command died\ndone\n"


def test_one_that_ignores_sigterm_is_killed(person: Person) -> None:
    with person.shim() as shim:
        stubborn = AGENT.replace("os.chdir", "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.chdir")
        start(person, shim, "echo done", beside=agent(person, shim, stubborn))
        assert shim.end().code == 0
        assert not alive(pid_in(shim.directory / "agent.pid"))


def test_the_shims_death_takes_it_along(person: Person) -> None:
    with person.shim() as shim:
        start(person, shim, "sleep 60")
        pid = pid_in(shim.directory / "agent.pid")
        assert shim.process is not None
        shim.process.kill()
        shim.process.wait()
        until(lambda: not alive(pid))
