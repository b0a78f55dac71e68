"""The last program before a job: puts the inner layers around itself and becomes the job.

`python -I -S launch.py <policy_fd> <applied_fd>`

The policy (see enclosure.Policy) is JSON in a memfd. "+" on `applied_fd` means that every layer holds, "-" that
nothing of the job ran and stderr said why.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import sys
from typing import Any, NoReturn

sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from exocomp.sandbox import child, kernel, landlock, seccomp
from exocomp.sandbox.layers import NOT_APPLIED, LayerMissing

_PR_SET_NO_NEW_PRIVS = 38


def main(policy_fd: int, applied_fd: int) -> NoReturn:
    try:
        with open(policy_fd, "rb") as file:
            policy = json.load(file)
        _leave_nothing_open(applied_fd)
        _confine(policy)
        os.write(applied_fd, b"+")
    except LayerMissing as missing:
        _refuse(applied_fd, str(missing))
    except Exception as error:
        _refuse(applied_fd, f"{type(error).__name__}: {error}")
    child.become(policy["argv"], policy["env"], policy["cwd"])


def _refuse(applied_fd: int, why: str) -> NoReturn:
    os.write(applied_fd, b"-")
    os.write(2, f"exocomp: nothing was run: {why}\n".encode("utf-8", "backslashreplace"))
    os._exit(NOT_APPLIED)


def _leave_nothing_open(applied_fd: int) -> None:
    os.set_inheritable(applied_fd, False)
    os.closerange(3, applied_fd)
    os.closerange(applied_fd + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _confine(policy: dict[str, Any]) -> None:
    for place, device, inode in policy["files"]:
        found = os.stat(place)
        if (found.st_dev, found.st_ino) != (device, inode):
            raise OSError(errno.ESTALE, "was replaced meanwhile", place)
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the job's secrets
    kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if policy["landlock"]:
        landlock.restrict(policy["rules"], policy["connect"], needed=policy["landlock"])
    if policy["seccomp"]:
        seccomp.install()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
