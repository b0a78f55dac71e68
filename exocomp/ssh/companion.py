"""The agent as an attempt's companion: which hosts and users it gets, and the keys, for no eyes but its own."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from exocomp.model import Host, Pin
from exocomp.protocol.jobs import Companion
from exocomp.ssh import agent
from exocomp.ssh.fleet_key import COMMENT, FleetKey

FLEET_USER = "exocomp"  # whom the seeded runbook creates
SOCKET = "a"  # short: a socket's path has 107 bytes at most
_USER_VARIABLES = ("ansible_user", "ansible_ssh_user", "exocomp_fleet_user")


def companion(
    keys: Iterable[FleetKey], attempt: Path, pins: Mapping[str, Iterable[Pin]], users: frozenset[str] | None
) -> Companion:
    """The agent for one attempt, its socket in that directory, offering `keys` in this order."""
    socket = str(attempt.resolve() / SOCKET)
    secret = {
        "seeds": [base64.b64encode(key.seed).decode() for key in keys],
        "comment": COMMENT,
        "pins": [{"names": [name], "keys": [pin.key for pin in some]} for name, some in pins.items()],
        "users": None if users is None else sorted(users),
    }
    argv = (sys.executable, "-I", agent.__file__, "{fd}", socket)
    return Companion(argv=argv, secret=json.dumps(secret), ready=socket)


def users_of(hosts: Iterable[Host], extra_vars: Mapping[str, Any]) -> frozenset[str] | None:
    """Whom the fleet key may log in as: those that the hosts' inventory and the extra-vars name, and the fleet user.

    None, which is anyone, when the inventory leaves a host's user to the play, or an extra-var is a template.
    """
    told = {str(extra_vars[name]) for name in _USER_VARIABLES if extra_vars.get(name) is not None}
    declared = {host.user for host in hosts if host.over_ssh}
    if None in declared or any("{{" in user or "{%" in user for user in told):
        return None
    return frozenset({FLEET_USER, *told, *(user for user in declared if user)})
