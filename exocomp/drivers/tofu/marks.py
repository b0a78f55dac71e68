"""Run as a command beside the engine (stdlib only): that an init worked, where the state is, what a plan destroys."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys

_LARGEST_LOCK = 16 << 20  # a job may have put a hole of any size there
USAGE = "initialised MARK FINGERPRINT LOCKFILE | state ENGINE [EARLIER…] | state-after ENGINE | gate PLAN"
CLOSED = 10  # what `gate` exits with when a person has to decide


def lock_digest(lock_file: str) -> str:
    """sha256 of the lock file; empty when there is none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with open(lock_file, "rb", opener=lambda name, _: os.open(name, flags)) as stream:
            return hashlib.sha256(stream.read(_LARGEST_LOCK)).hexdigest()
    except OSError:
        return ""


def initialised(mark: str, fingerprint: str, lock_file: str) -> int:
    temporary = f"{mark}.tmp"
    with open(temporary, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        json.dump({"fingerprint": fingerprint, "lock": lock_digest(lock_file)}, out)
    os.rename(temporary, mark)
    return 0


def state(engine: str, *earlier: str) -> int:
    """Print lineage and serial as JSON; say on stderr when the state moved since an earlier attempt noted it."""
    done = subprocess.run([engine, "state", "pull"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        return done.returncode
    try:
        pulled = json.loads(done.stdout) if done.stdout.strip() else {}
        now = {"lineage": pulled.get("lineage", ""), "serial": pulled.get("serial", 0)}
    except (ValueError, AttributeError):
        sys.stderr.write("Error: state pull printed something else than a state\n")
        return 1
    print(json.dumps(now))
    for path in earlier:
        with open(path, encoding="utf-8") as stream:
            then = json.load(stream)
        if then != now:
            line = {"@level": "warn", "@message": _moved(then, now), "type": "state_moved"}
            sys.stderr.write(json.dumps(line) + "\n")
    return 0


def state_after(engine: str) -> int:
    """As `state`, but what can't be pulled is no failure: the apply is done."""
    if state(engine) != 0:
        print("{}")
    return 0


def gate(plan: str) -> int:
    """Whether the plan, as `show -json` prints it, destroys or replaces anything."""
    with open(plan, "rb") as stream:
        changes = json.load(stream).get("resource_changes", [])
    return CLOSED if any("delete" in change["change"]["actions"] for change in changes) else 0


def _moved(then: dict[str, object], now: dict[str, object]) -> str:
    if then.get("lineage") and then["lineage"] != now["lineage"]:
        return "the state is another one than the earlier attempt saw (its lineage differs); planned anew from it"
    return (
        f"the state moved from serial {then.get('serial')} to {now['serial']} since the earlier attempt planned; "
        "planned anew from it"
    )


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    match arguments:
        case ["initialised", mark, fingerprint, lock_file]:
            return initialised(mark, fingerprint, lock_file)
        case ["state", engine, *earlier]:
            return state(engine, *earlier)
        case ["state-after", engine]:
            return state_after(engine)
        case ["gate", plan]:
            return gate(plan)
    sys.stderr.write(f"usage: {USAGE}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
