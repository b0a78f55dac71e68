"""The jails of plays and engines: pure functions of the job and of where its things lie."""

from __future__ import annotations

import sys
from pathlib import Path

import exocomp
from exocomp.drivers.ansible.record import PROGRESS
from exocomp.drivers.tofu.environment import OF_ATTEMPT
from exocomp.drivers.tofu.working_copy import OF_ENGINE
from exocomp.model import Tier
from exocomp.protocol.jobs import Jail, PlayJob, TofuJob
from exocomp.sandbox.view import PROC, base_view

SSH, HTTPS, DNS = 22, 443, 53
TMP = "/tmp"  # always a private one
# Our interpreter with what is installed beside it, and exocomp itself, which need not lie there.
PYTHON = (sys.prefix, sys.base_prefix, sys.base_exec_prefix, str(Path(exocomp.__file__).parent))


def of_play(
    job: PlayJob,
    attempt: Path,
    project: Path,
    facts: Path,
    program: str,
    tier: Tier,
    vendored: Path | None = None,
) -> Jail:
    """TCP 22 and each --egress; its attempt, of which it writes a few directories; the staged project; its keys;
    the tree of vendored collections and roles.

    `attempt` holds the files `hosts` and `passwd`, which become those of /etc.
    """
    base = base_view()
    # The record is one file: in a directory of its own the job could put a link or a FIFO in its place.
    own = (attempt / "home", attempt / "tmp", attempt / "c", attempt / PROGRESS)
    identities = tuple((path, path) for path in dict.fromkeys(job.ssh_identities))
    return Jail(
        tier=tier.value,
        execute=(*base.execute, *_installed(program), str(attempt)),
        read=(*_system(base.read, tier), str(project), *(() if vendored is None else (str(vendored),))),
        write=(*map(str, own), str(facts), TMP),
        files=(
            (str(attempt / "hosts"), "/etc/hosts"),
            (str(attempt / "passwd"), "/etc/passwd"),
            *identities,
        ),
        connect=granted(job),
    )


def of_engine(job: TofuJob, attempt: Path, workspace: Path, program: str, tier: Tier) -> Jail:
    """TCP 443, 53 and each --egress of the workspace; its attempt; to write, a home there and of the workspace the
    directories of an engine: what the daemon keeps beside them is its own word.

    `attempt` holds the file `resolv.conf`, which becomes /etc/resolv.conf.
    """
    base = base_view()
    return Jail(
        tier=tier.value,
        execute=(*base.execute, *_installed(program)),
        read=(*_system(base.read, tier), str(attempt)),
        write=(*(str(workspace / name) for name in OF_ENGINE), *(str(attempt / name) for name in OF_ATTEMPT), TMP),
        files=((str(attempt / "resolv.conf"), "/etc/resolv.conf"),),
        connect=granted(job),
    )


def granted(job: PlayJob | TofuJob) -> tuple[int, ...]:
    """The TCP ports that a job may connect to."""
    ports = (SSH, *job.egress) if isinstance(job, PlayJob) else (HTTPS, DNS, *job.workspace.egress)
    return tuple(dict.fromkeys(ports))


def passwd(text: str, uid: int, home: Path) -> str:
    """The machine's passwd(5) with the job's home as that of `uid`: a play over localhost goes by it, not by HOME."""
    lines = [line.split(":") for line in text.splitlines()]
    own = [line for line in lines if len(line) == 7 and line[2] == str(uid)] or [
        ["exocomp", "x", str(uid), str(uid), "", "", "/bin/sh"]
    ]
    others = [line for line in lines if line not in own]
    return "".join(":".join(line) + "\n" for line in [*([*o[:5], str(home), o[6]] for o in own), *others])


def resolver(text: str) -> str:
    """The machine's resolv.conf(5) for a jail without UDP: the same servers, asked over TCP."""
    kept = [line for line in text.splitlines() if line.split()[:1] in (["nameserver"], ["search"], ["domain"])]
    return "\n".join([*kept, "options use-vc", ""])


def _installed(program: str) -> tuple[str, ...]:
    """Where a program may lie and load things from: beside our Python, or itself."""
    real = Path(program).resolve()
    return (*dict.fromkeys(PYTHON), program, str(real))


def _system(read: tuple[str, ...], tier: Tier) -> tuple[str, ...]:
    # Without a pid namespace /proc would be everybody's.
    return (*read, PROC) if tier is Tier.ENFORCING else read
