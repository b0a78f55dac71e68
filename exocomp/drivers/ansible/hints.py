"""What a person should do about a fault, told by what ssh and ansible say."""

from __future__ import annotations

import re

_ONBOARD = "exocomp host onboard {host}"
# (what ssh or ansible says, the next step); the first that is found counts.
_HINTS: tuple[tuple[str, str], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for \S+ has changed",
        f"the host shows another key than the pinned one: compare fingerprints out of band, then {_ONBOARD} --rotate",
    ),
    (
        r"host key is known for|Host key verification failed|authenticity of host",
        f"the host's key is not pinned: compare fingerprints out of band, then {_ONBOARD} (--rotate replaces)",
    ),
    (
        r"the connection is not bound to a host",
        "logging in with the fleet key needs OpenSSH 8.9 or newer on the control host",
    ),
    (
        r"the inventory declares no such user",
        "declare that user as ansible_user of the host, or log in as one whom the inventory declares",
    ),
    (
        r"connect to host \S+ port (?P<port>\d+): Permission denied",
        "the jobs of this run may not connect to that port: run it with --egress {port}",
    ),
    (
        r"Permission denied|Too many authentication failures|no such identity|UNPROTECTED PRIVATE KEY",
        "start a new run with --ssh-identity PATH, a key that the host accepts, or declare its user in the inventory",
    ),
    (
        r"you must install the sshpass program",
        "the inventory declares a password: install sshpass on the control host",
    ),
    (r"Could not resolve hostname|hostname contains invalid", "correct the host's address (ansible_host)"),
    (
        r"Connection refused|[Tt]imed out|No route to host|Network is unreachable|closed by remote|Connection reset",
        "see that the machine is up and its SSH port reachable from here, then retry",
    ),
    (
        r"[Mm]issing sudo password|password is required|Incorrect sudo password|become password",
        "give the login user passwordless sudo or declare ansible_become_password for it",
    ),
    (
        r"python\S*: (command )?not found|No python interpreters found|interpreter.*not found|discovered_interpreter",
        "install python3 on the host (the seeded onboarding runbook does) or set ansible_python_interpreter",
    ),
    (
        r"there is no python3",
        "put python3 into the machine's image, or let the host reach a package mirror, then retry",
    ),
    (
        r"no vault secrets|[Dd]ecryption failed|vault password",
        "the play reads vault-encrypted files: this run has no vault password",
    ),
    (r"No space left on device", "make room on the disk, then retry"),
    (
        r"Could not find or access|could not be found",
        "files must lie inside the playbook's project, which is staged as a whole",
    ),
    (
        r"was not found in configured module paths|couldn't resolve module/action|role '\S+' was not found",
        "put the collection or role into the playbook's project (collections/, roles/)",
    ),
    (r"leaves us with no hosts", "--limit must name hosts or groups of the inventory: exocomp inventory show"),
    (r"locale encoding|preferred locale", "the control host lacks the locale C.UTF-8: install it"),
    (
        r"parse inventory|inventory was parsed",
        "look at the `ansible_inventory` output of the workspace: exocomp inventory show",
    ),
    (
        r"not a valid attribute|at least one play|Empty playbook|Syntax Error while load|YAML parsing|conflicting",
        "correct the playbook, then retry",
    ),
)


def of(message: str, *, host: str = "<host>") -> str:
    """The next step for a message of ssh or ansible, or "" when nothing better than the message is known."""
    for pattern, hint in _HINTS:
        if found := re.search(pattern, message):
            return hint.format(host=host, **found.groupdict())
    return ""
