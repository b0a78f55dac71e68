"""A cloud: an HTTP API on the controller's loopback which makes, delays, loses and destroys machines.

POST /machines {"name", "address", "port"}     201; the machine boots as the test told the cloud beforehand;
                                               200 when there is one of that name, which is left as it is
DELETE /machines/<name>                        204, also when there is none
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.lab import namespaces
from tests.lab.machines import Lab, Machine


@dataclass
class Fate:
    """What becomes of a machine: `slow_s` is how long the API takes to make it, `late_s` how long it then boots."""

    slow_s: float = 0.0
    late_s: float = 0.0
    answers: bool = True
    refused: bool = False  # the API answers 503
    sshd_port: int | None = None  # where sshd really listens, whatever was asked for


@dataclass
class Cloud:
    """`requests` are (method, name) in the order of arrival; `machines` are those that are up, by name."""

    lab: Lab
    network: str
    url: str = ""
    port: int = 0
    machines: dict[str, Machine] = field(default_factory=dict)
    fates: dict[str, Fate] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._boots: dict[str, threading.Thread] = {}
        self._destroyed: dict[str, threading.Event] = {}
        self._server = namespaces.inside(self.lab.controller, self._listen)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def tell(self, name: str, **fate: Any) -> None:
        """Decide beforehand what becomes of a machine."""
        self.fates[name] = Fate(**fate)

    def made(self, name: str) -> int:
        """How often a machine of this name was asked for."""
        return self.requests.count(("POST", name))

    def machine(self, name: str, timeout_s: float = 30.0) -> Machine:
        """The machine, once it has booted; raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if (machine := self.machines.get(name)) is not None:
                return machine
            time.sleep(0.02)
        raise TimeoutError(f"the cloud has no machine {name}; it was asked {self.requests}")

    def create(self, name: str, address: str, port: int) -> int:
        with self._lock:
            self.requests.append(("POST", name))
            fate = self.fates.get(name, Fate())
        if fate.refused:
            return 503
        if self._closed.wait(fate.slow_s):
            return 503
        with self._lock:
            if name in self._boots:
                return 200
            gone = self._destroyed[name] = threading.Event()
            args = (name, address, fate.sshd_port or port, fate, gone)
            self._boots[name] = threading.Thread(target=self._boot, args=args, daemon=True)
            self._boots[name].start()
        return 201

    def destroy(self, name: str) -> int:
        with self._lock:
            self.requests.append(("DELETE", name))
        self._take_away(name)
        return 204

    def close(self) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        for name in list(self._boots):
            self._take_away(name)

    def _boot(self, name: str, address: str, port: int, fate: Fate, gone: threading.Event) -> None:
        if not gone.wait(fate.late_s):
            self.machines[name] = Machine(self.lab, name, address, port=port, sshd=fate.answers)

    def _take_away(self, name: str) -> None:
        if (boot := self._boots.pop(name, None)) is not None:
            self._destroyed[name].set()
            boot.join()
        if (machine := self.machines.pop(name, None)) is not None:
            machine.power_cut()

    def _listen(self) -> ThreadingHTTPServer:
        cloud = self

        class Api(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(cloud.create(asked["name"], asked["address"], int(asked["port"])))

            def do_DELETE(self) -> None:
                self._answer(cloud.destroy(self.path.rpartition("/")[2]))

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """The request log is Cloud.requests."""

            def handle(self) -> None:
                try:
                    super().handle()
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # the client was killed while its request was slow

        return ThreadingHTTPServer(("127.0.0.1", 0), Api)
