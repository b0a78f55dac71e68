"""Jobs, their attempts and per-host results."""

from __future__ import annotations

from exocomp.errors import Conflict, NotFound
from exocomp.model import Tier
from exocomp.protocol.jobs import Job
from exocomp.protocol.queries import AttemptView, HostResult
from exocomp.store import rows
from exocomp.store.store import Store, Transaction

ONE = f"SELECT {rows.JOB} FROM job WHERE id = ?"
MATCHING = """
SELECT id FROM job WHERE substr(id, 1, length(?1)) = ?1 OR substr(id, -length(?1)) = ?1
  OR substr(id, 5, length(?1)) = ?1 LIMIT 3
"""
LATEST = "SELECT id FROM job ORDER BY rowid DESC LIMIT 1"
LIST = f"SELECT {rows.JOB} FROM job WHERE ?1 IS NULL OR workflow = ?1 ORDER BY rowid DESC LIMIT ?2"
ATTEMPTS = f"SELECT {rows.ATTEMPT} FROM attempt WHERE job = ? ORDER BY number"
HOSTS = f"SELECT {rows.HOST_RESULT} FROM host_result WHERE job = ? ORDER BY host"
TRIES = "SELECT count(*) FROM attempt JOIN job ON job.id = attempt.job WHERE job.workflow = ? AND job.step = ?"


def get(at: Store | Transaction, id: str) -> Job:
    """By exact id; raises NotFound."""
    row = at.row(ONE, id)
    if row is None:
        raise NotFound(f"no job {id!r}", hint="see `exocomp job list`")
    return rows.job(row)


def find(store: Store, wanted: str) -> Job:
    """By id, unique prefix or suffix, or "latest"; raises NotFound or Conflict."""
    if wanted == "latest":
        row = store.row(LATEST)
        if row is None:
            raise NotFound("no job has run yet", hint="start one: exocomp provision run <workspace> <playbook>")
        return get(store, row[0])
    found = [id for (id,) in store.rows(MATCHING, wanted)] if len(wanted) > 1 else []
    if wanted in found or len(found) == 1:
        return get(store, wanted if wanted in found else found[0])
    if found:
        raise Conflict(f"{wanted!r} fits more than one job: {', '.join(found)}, …", hint="give more characters")
    return get(store, wanted)


def every(store: Store, workflow: str | None, limit: int) -> tuple[Job, ...]:
    """Newest first."""
    return tuple(map(rows.job, store.rows(LIST, workflow, limit)))


def attempts(store: Store, job: str) -> tuple[AttemptView, ...]:
    return tuple(map(rows.attempt, store.rows(ATTEMPTS, job)))


def hosts(store: Store, job: str) -> tuple[HostResult, ...]:
    return tuple(map(rows.host_result, store.rows(HOSTS, job)))


def tier(store: Store, job: str) -> Tier | None:
    """What stood around the latest attempt."""
    latest = attempts(store, job)
    return latest[-1].tier if latest else None


def tries(store: Store, workflow: str, step: str) -> int:
    """Attempts of all jobs that a step has had."""
    row = store.row(TRIES, workflow, step)
    return int(row[0]) if row else 0
