"""Denials made visible: which wall of the jail a failed job ran into, and the flag that would open it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from exocomp.actors import jails
from exocomp.model import Exit, Tier, Verdict
from exocomp.protocol.jobs import Job, PlayJob, TofuJob
from exocomp.sandbox.enclosure import PREFIX
from exocomp.sandbox.layers import NOT_APPLIED

_TAIL = 128 * 1024
_PORT = re.compile(r"(?:connect to (?:host |address )?\S+ port |dial tcp \S+:)(\d{1,5})\b([^\n]{0,80})")
_REACHED = re.compile(r"refused|timed out|timeout|unreachable|no route|reset", re.IGNORECASE)  # past the wall
_UNNAMED_PORT = re.compile(
    r"(?:urlopen error|Failed to establish a new connection)[^\n]{0,80}\[Errno 13\]"
    r"|connect\([^()\n]{0,80}\)(?:\\n|[\s^~])*PermissionError: \[Errno 13\]"  # a traceback's last lines, \n or "\\n"
)
_PATH = re.compile(
    # From a path's first letter and never backwards in it: a log of 128 KiB of slashes must not hold up the daemon.
    r"(?<![\w.@+/-])(/[\w.@+/-]++)['\"\\:]*+\s*+(?:[^\n]{0,20})(?:[Nn]o such file|[Pp]ermission denied)"
    r"|(?:no such file[^\n:]{0,80}|permission denied): \\?['\"]?(/[\w.@+/-]++)",
    re.IGNORECASE,
)


def unmade(exit: Exit, log: str) -> Verdict | None:
    """The verdict when nothing was run for want of a layer, as the launcher said; a job itself may exit 125."""
    last = log.rstrip("\n").rpartition("\n")[2]
    if exit.code != NOT_APPLIED or not last.startswith(PREFIX):
        return None
    missing, _, cure = last.removeprefix(PREFIX).partition("; ")
    return Verdict(
        ok=False,
        reason=f"the sandbox could not be made, so nothing was run: {missing}",
        hint=f'{cure or "see the log"}; to run with less around it, set sandbox = "degraded" in the config file',
    )


def explain(verdict: Verdict, job: Job, log: str, shown: Iterable[str], tier: Tier) -> Verdict:
    """The verdict with the wall that the log tells of, if it tells of one; `shown` is what the job could see."""
    if verdict.ok or tier is Tier.OFF:
        return verdict
    if port := _refused(log, job):
        return _at(verdict, f"the job may not connect to TCP port {port}", _open_port(job, port))
    if _UNNAMED_PORT.search(log):
        return _at(verdict, "the job may not connect to that port", _open_port(job, "PORT"))
    if isinstance(job.spec, TofuJob) and (path := _unseen(log, tuple(shown))):
        return _at(
            verdict,
            f"the job can't see {path}, which lies outside the module's root and the data dir",
            "put it into the module's root, or name a wider one by workspace add --root",
        )
    return verdict


def tail(log: Path) -> str:
    """The end of a log, where a job says what stopped it."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        return file.read().decode("utf-8", "replace")


def _at(verdict: Verdict, wall: str, flag: str) -> Verdict:
    return msgspec.structs.replace(verdict, reason=f"{verdict.reason} ({wall})", hint=flag)


def _refused(log: str, job: Job) -> str:
    """The port of a connect that Landlock refused. Not every tool tells the error, but an engine runs nowhere else
    than here, so that a port it was not granted is reason enough."""
    for found in _PORT.finditer(log):
        ports = jails.granted(job.spec) if isinstance(job.spec, TofuJob) else (int(found[1]),)
        untold = int(found[1]) not in ports and not _REACHED.search(found[2])
        if untold or "ermission denied" in found[2]:
            return found[1]
    return ""


def _open_port(job: Job, port: str) -> str:
    if isinstance(job.spec, PlayJob):
        return f"run it with --egress {port}"
    return f"register the workspace with --egress {port}"


def _unseen(log: str, shown: tuple[str, ...]) -> str:
    """A path that is on this machine, but not in the job's view."""
    for found in _PATH.finditer(log):
        path = (found[1] or found[2]).rstrip(".:,")
        inside = any(path == tree or path.startswith(f"{tree.rstrip('/')}/") for tree in shown)
        if not inside and os.path.lexists(path):
            return path
    return ""
