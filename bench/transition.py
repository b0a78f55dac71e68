"""Goal 7: one durable transition (state and event) against fdatasync of 8 KiB on the same disk."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from bench.ratio import compare
from exocomp.model import RunOptions, RunState, StepState, Workflow
from exocomp.protocol.jobs import Job, ProbeJob
from exocomp.protocol.mail import Report
from exocomp.store import steps, workflows
from exocomp.store.store import open_writer

BATCH = 100
CHAIN = (("apply", "apply"), ("wait", "wait"), ("pin", "onboard"), ("configure", "configure"))


def main(home: Path) -> None:
    store = open_writer(home / "bench.db")
    count = 0
    spec = ProbeJob(hosts=(), timeout_s=1.0)

    def transitions() -> None:
        """A workflow of four steps is nine transactions: begin, and release and settle of each step."""
        nonlocal count
        for _ in range(BATCH // 9):
            count += 1
            id = f"wf_{count}"
            flow = Workflow(
                id=id,
                kind="bench",
                workspace=None,
                playbook=None,
                options=RunOptions(),
                state=RunState.RUNNING,
                created_at=0.0,
            )
            workflows.begin(store, flow, CHAIN)
            for at, (name, _) in enumerate(CHAIN):
                job = Job(
                    id=f"job_{count}_{at}",
                    workflow=id,
                    step=name,
                    spec=spec,
                    key=None,
                    state="running",
                    attempt=1,
                    created_at=0.0,
                )
                steps.release(store, steps.of(store, id)[at], job)
                report = Report(job=job.id, attempt=1, outcome="succeeded")
                steps.settle(store, steps.of(store, id)[at], report, StepState.SUCCEEDED)

    block = os.urandom(8192)
    raw = os.open(home / "raw", os.O_RDWR | os.O_CREAT)
    os.write(raw, block)

    def writes() -> None:
        for _ in range(BATCH // 9 * 9):
            os.pwrite(raw, block, 0)
            os.fdatasync(raw)

    compare("durable transition", transitions, writes, rounds=11, goal=1.35, per=BATCH // 9 * 9)
    os.close(raw)
    store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else ".") as home:
        main(Path(home))
