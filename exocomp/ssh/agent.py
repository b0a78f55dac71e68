"""The process that holds the fleet key for one attempt: `python -I agent.py <fd> <socket>`.

It reads {"seeds", "comment", "pins": [{"names", "keys"}], "users"} as JSON from the descriptor: ed25519 seeds in
base64, offered in this order; for each pin key blobs in base64 and the names of the hosts; the users that a login may
be for, or null. Each signature and each refusal is one line on stderr. Every play waits for its start, so it imports
little.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import selectors
import signal
import socket
import sys
from binascii import a2b_base64
from typing import Any

# -I leaves an exocomp that is not installed off the path.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from exocomp.ssh.agent_session import AgentSession, Credential
from exocomp.ssh.agent_wire import ed25519

MOST_BYTES = 256 * 1024  # of one message, as in OpenSSH's agent
MOST_CLIENTS = 200  # four for each of the forks that a play gets at most
_CHUNK = 64 * 1024
_PR_SET_DUMPABLE = 4


def main(fd: int, path: str) -> None:
    """Serve until killed. The socket appears at `path`, 0600, when it already answers."""
    _seclude()
    with open(fd, "rb") as file:
        if file.seekable():
            file.seek(0)
        credential = read_credential(json.load(file))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        os.umask(0o177)
        draft = f"{path}.new"
        listener.bind(draft)
        listener.listen(MOST_CLIENTS)
        os.rename(draft, path)
        serve(listener, credential)


def _seclude() -> None:
    """Leave no core, and nobody of the same user may trace this process or read its memory (prctl(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl PR_SET_DUMPABLE")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # An interrupt cancels the commands; while they wind up, they may still have to log in.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def read_credential(told: dict[str, Any]) -> Credential:
    """The keys leave `told`; raises ValueError unless each is 32 bytes and there is one."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    keys = [Ed25519PrivateKey.from_private_bytes(a2b_base64(seed)) for seed in told.pop("seeds")]
    if not keys:
        raise ValueError("no seed")
    pins: dict[bytes, str] = {}
    for pin in told["pins"]:
        for blob in map(a2b_base64, pin["keys"]):  # cloned machines show the same key
            pins[blob] = ",".join((*filter(None, [pins.get(blob)]), *pin["names"]))
    return Credential(
        keys={ed25519(key.public_key().public_bytes_raw()): key.sign for key in keys},
        comment=told["comment"].encode(),
        pins=pins,
        users=None if told["users"] is None else frozenset(user.encode() for user in told["users"]),
    )


def serve(listener: socket.socket, credential: Credential) -> None:
    """Answer everyone who connects, none waiting for another."""
    listener.setblocking(False)
    clients: set[_Client] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for ready, _ in selector.select():
                if ready.data is None:
                    _accept(selector, listener, clients, credential)
                elif ready.data.turn():
                    selector.modify(ready.fileobj, ready.data.interest, ready.data)
                else:
                    selector.unregister(ready.fileobj)
                    clients.discard(ready.data)
                    ready.data.close()


def _accept(
    selector: selectors.BaseSelector, listener: socket.socket, clients: set[_Client], credential: Credential
) -> None:
    with contextlib.suppress(OSError):  # it went away already
        sock, _ = listener.accept()
        if len(clients) >= MOST_CLIENTS:
            sock.close()
            tell(f"refused a connection: there are {MOST_CLIENTS} already")
            return
        client = _Client(sock, AgentSession(credential, tell))
        clients.add(client)
        selector.register(sock, client.interest, client)


class _Client:
    """One connection; while it does not take its answers, nothing more is read from it."""

    def __init__(self, sock: socket.socket, session: AgentSession) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._session = session
        self._asked = bytearray()
        self._answers = b""
        self.close = sock.close

    @property
    def interest(self) -> int:
        return selectors.EVENT_WRITE if self._answers else selectors.EVENT_READ

    def turn(self) -> bool:
        """Move what can be moved; False when the connection is over."""
        try:
            if not self._answers:
                if not (chunk := self._sock.recv(_CHUNK)):
                    return False
                self._asked += chunk
            return self._send_answers()
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _send_answers(self) -> bool:
        while True:
            if self._answers:
                self._answers = self._answers[self._sock.send(self._answers) :]
                if self._answers:
                    return True
            size = int.from_bytes(self._asked[:4], "big")
            if size > MOST_BYTES:
                tell(f"refused a message of {size} bytes")
                return False
            if len(self._asked) < 4 + size:
                return True
            answer = self._session.answer(bytes(self._asked[4 : 4 + size]))
            del self._asked[: 4 + size]
            self._answers = len(answer).to_bytes(4, "big") + answer


def tell(line: str) -> None:
    """One line on stderr, which is the attempt's log; an agent whose log is gone goes on."""
    with contextlib.suppress(OSError):
        os.write(2, f"exocomp agent: {line}\n".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
