"""Goal 10: `exocomp provision status` against `ansible --version`, wall time."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from bench.ratio import compare
from exocomp.model import RunOptions, RunState, Workflow
from exocomp.store import workflows
from exocomp.store.store import open_writer

SCRIPTS = Path(sysconfig.get_path("scripts"))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="xo-") as home:
        store = open_writer(Path(home) / "exocomp.db")
        flow = Workflow(
            id="wf_1",
            kind="provision",
            workspace="edge",
            playbook="/p.yml",
            options=RunOptions(),
            state=RunState.RUNNING,
            created_at=0.0,
        )
        workflows.begin(store, flow, [(name, name) for name in ("apply", "wait", "onboard", "configure")])
        store.close()
        env = os.environ | {"EXOCOMP_DATA_DIR": home}

        def status() -> None:
            subprocess.run([SCRIPTS / "exocomp", "provision", "status"], env=env, check=True, capture_output=True)

        def version() -> None:
            subprocess.run([SCRIPTS / "ansible", "--version"], check=True, capture_output=True)

        compare("provision status", status, version, rounds=9, goal=0.30)


if __name__ == "__main__":
    main()
