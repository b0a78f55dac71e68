"""The far side of every attack: files, listeners that remember who came, sockets, and a process to be attacked."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from exocomp.protocol.jobs import Jail
from tests.sandbox import attacks
from tests.sandbox.people import ENV, Person

PEEL = Path(__file__).with_name("peel.py")


class Listeners:
    """TCP, UDP and Unix listeners by name; `visitors` are the names of those that were reached."""

    def __init__(self, outside: Path) -> None:
        self.abstract = f"exocomp-{secrets.token_hex(4)}"
        self._control = socket.socket(socket.AF_UNIX)
        self._control.bind(str(outside / "control.sock"))
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind("\0" + self.abstract)
        udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        udp.bind(("::", 0))
        self.sockets = {
            "granted": socket.create_server(("127.0.0.1", 0)),
            "granted6": socket.create_server(("::1", 0), family=socket.AF_INET6),
            "port": socket.create_server(("127.0.0.1", 0)),
            "port6": socket.create_server(("::1", 0), family=socket.AF_INET6),
            "udp": udp,
            "control": self._control,
            "abstract": abstract,
        }
        for name in ("control", "abstract"):
            self.sockets[name].listen()
        self.ports = {n: s.getsockname()[1] for n, s in self.sockets.items() if n not in ("control", "abstract")}

    def drain(self) -> set[str]:
        """Who was reached since the last time."""
        reached = set()
        with selectors.DefaultSelector() as selector:
            for name, sock in self.sockets.items():
                selector.register(sock, selectors.EVENT_READ, name)
            while ready := selector.select(0.1):
                for key, _ in ready:
                    reached.add(key.data)
                    sock = self.sockets[key.data]
                    if key.data == "udp":
                        sock.recv(100)
                    else:
                        sock.accept()[0].close()
        return reached

    def close(self) -> None:
        for sock in self.sockets.values():
            sock.close()


class World:
    """Belongs to `person` throughout, so that nothing but the jail is in the way of an attack."""

    def __init__(self, person: Person, stack: contextlib.ExitStack) -> None:
        self.person = person
        self.outside = person.mkdir("outside")
        person.mkdir("outside", "other")
        for name in ("key", "db", "moved"):
            person.write(self.outside / name)
        keys = person.mkdir("keys")
        self.identity = person.write(keys / "id")
        person.write(keys / "id.sibling")
        self.listeners = Listeners(self.outside)
        stack.callback(self.listeners.close)
        os.chown(self.outside / "control.sock", person.uid, person.gid)
        self.victim = person.popen_of(["sleep", "600"])
        stack.callback(self.victim.wait)
        stack.callback(self.victim.kill)
        self.script = person.write(person.base / "attacks.py", Path(attacks.__file__).read_text())

    def argv(self, home: Path) -> tuple[str, ...]:
        told = {
            "outside": str(self.outside),
            "own": str(home),
            "identity": str(self.identity),
            "victim": self.victim.pid,
            "abstract": self.listeners.abstract,
            **self.listeners.ports,
        }
        return (self.person.python, "-I", "-S", str(self.script), json.dumps(told))

    def jail(self, home: Path, *read: str, **more: Any) -> Jail:
        granted = tuple(self.listeners.ports[name] for name in ("granted", "granted6"))
        fields: dict[str, Any] = {"connect": granted, "files": ((str(self.identity), str(self.identity)),)}
        jail = self.person.jail(home, **{**fields, **more})
        visible = (*jail.read, str(self.script), *read)
        return msgspec.structs.replace(jail, read=visible, execute=(*jail.execute, self.person.python))

    def restore(self) -> None:
        """What attacks that got through took away or left."""
        for name in ("key", "db", "moved"):
            self.person.write(self.outside / name)
        self.person.write(self.identity)
        for trace in ("/exocomp-new", "/usr/exocomp-new", *map(str, self.outside.glob("[ny]*"))):
            path = Path(trace)
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)

    def state(self) -> dict[str, tuple[int, int, bytes]]:
        """Mode, mtime and content of everything outside."""
        found = {}
        for path in sorted([*self.outside.rglob("*"), *self.identity.parent.iterdir()]):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
        return found

    def peeled(self, *, namespaces: bool, landlock: int, seccomp: bool) -> dict[str, str]:
        """The attacks in a jail without some of its layers, started without a shim."""
        directory = self.person.mkdir(f"peeled{secrets.token_hex(3)}")
        home = self.person.mkdir(directory.name, "home")
        jail = self.jail(home)
        order = {
            "argv": self.argv(home),
            "env": ENV,
            "cwd": str(home),
            "directory": str(directory),
            "layers": [namespaces, landlock, seccomp],
            "jail": {name: getattr(jail, name) for name in jail.__struct_fields__},
        }
        peel = self.person.write(self.person.base / "peel.py", PEEL.read_text())
        argv = [self.person.python, "-I", "-S", str(peel), str(self.person.room), json.dumps(order)]
        done = subprocess.run(argv, **self.person.popen, capture_output=True, check=True)
        return dict(json.loads(done.stdout))


@contextlib.contextmanager
def a_world(person: Person) -> Iterator[World]:
    with contextlib.ExitStack() as stack:
        yield World(person, stack)
