"""What one connection to the agent may have: one pinned host's session, and signatures for logins to that alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from exocomp.ssh import agent_wire as wire
from exocomp.ssh.agent_wire import Bind, Reader, Refused


class Credential(NamedTuple):
    """The keys and where they may be used: each one's blob and what it signs, offered in this order.

    `pins` are host key blobs and the hosts' names, `users` None means any.
    """

    keys: Mapping[bytes, Callable[[bytes], bytes]]
    comment: bytes
    pins: Mapping[bytes, str]
    users: Collection[bytes] | None


class AgentSession:
    """One connection. As in OpenSSH, it is bound once: to a login, or to forwarding, which gets nothing here.

    After a refused binding nothing is granted on it any more. `tell` takes one line for each signature and refusal.
    """

    def __init__(self, credential: Credential, tell: Callable[[str], None]) -> None:
        self._credential = credential
        self._tell = tell
        self._bound: Bind | None = None
        self._spoiled = False

    def answer(self, message: bytes) -> bytes:
        """The reply to one request of the wire, both without their length; raises nothing."""
        try:
            return self._answer(Reader(message))
        except Refused as refusal:
            self._tell(f"refused {refusal}")
            return wire.FAILURE

    def _answer(self, body: Reader) -> bytes:
        kind = body.byte()
        if kind == wire.EXTENSION:
            return self._bind(body)
        if self._spoiled:
            raise Refused("a request after a refused binding")
        if kind == wire.LIST:
            body.end()
            comment, keys = wire.string(self._credential.comment), self._credential.keys
            return b"".join(
                (wire.LISTED, len(keys).to_bytes(4, "big"), *(wire.string(blob) + comment for blob in keys))
            )
        if kind == wire.SIGN:
            return self._sign(body)
        raise Refused(f"a request of type {kind}")

    def _bind(self, body: Reader) -> bytes:
        if (name := body.string()) != wire.BIND:
            raise Refused(f"the extension {ascii(name[:80])[1:]}")
        again, self._spoiled = self._bound is not None or self._spoiled, True
        bind = wire.read_bind(body)
        if again:
            raise Refused("to bind a connection twice")
        if bind.forwarding:
            raise Refused("to be forwarded")
        if bind.host_key not in self._credential.pins:
            raise Refused("to bind to a host key that is not pinned for this run")
        if not wire.is_signed(bind):
            raise Refused(f"to bind to {self._host(bind)}: its key did not sign this session")
        self._bound, self._spoiled = bind, False
        return wire.SUCCESS

    def _sign(self, body: Reader) -> bytes:
        credential = self._credential
        request = wire.read_sign(body, credential.keys)
        user = ascii(request.user[:80].decode("utf-8", "replace"))
        if self._bound is None:
            raise Refused(f"to log in as {user}: the connection is not bound to a host")
        host = self._host(self._bound)
        if request.session != self._bound.session or request.host_key not in (None, self._bound.host_key):
            raise Refused(f"to log in as {user}: the connection is bound to another session, with {host}")
        if credential.users is not None and request.user not in credential.users:
            raise Refused(f"to log in as {user} at {host}: the inventory declares no such user")
        self._tell(f"signed a login as {user} at {host}")
        return wire.SIGNED + wire.string(wire.ed25519(credential.keys[request.key](request.signed)))

    def _host(self, bind: Bind) -> str:
        return self._credential.pins[bind.host_key]
