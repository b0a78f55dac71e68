"""The environment of a play, by allow-list: nothing of the daemon's own environment reaches it."""

from __future__ import annotations

from pathlib import Path

from exocomp.drivers.ansible.project_config import ProjectConfig
from exocomp.drivers.ansible.record import PROGRESS

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CALLBACKS = Path(__file__).parent / "callback"
SYSTEM_COLLECTIONS, SYSTEM_ROLES = "/usr/share/ansible/collections", "/usr/share/ansible/roles"  # ansible's defaults
FACTS_LIVE_S = 3600  # older facts are gathered anew, as when a workflow is retried the next day


def compose(
    attempt: Path,
    config: ProjectConfig,
    *,
    empty_config: Path,
    facts: Path,
    project: Path,
    vendored: Path | None = None,
) -> dict[str, str]:
    """Fixed settings, and ours where the project's ansible.cfg chooses nothing itself.

    An explicit ANSIBLE_CONFIG counts in a world-writable directory too, where ansible ignores its ansible.cfg.
    """
    env = {
        "PATH": PATH,
        "LC_ALL": "C.UTF-8",
        "HOME": str(attempt / "home"),
        "TMPDIR": str(attempt / "tmp"),
        "ANSIBLE_HOME": str(attempt / "home" / ".ansible"),
        "ANSIBLE_LOCAL_TEMP": str(attempt / "tmp"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(attempt / "c"),
        "ANSIBLE_CONFIG": str(config.path or empty_config),
        "ANSIBLE_INVENTORY_ENABLED": "yaml",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1",
        # An absent group is no error: outputs leave out groups without hosts. The verdict fails an empty run.
        "ANSIBLE_HOST_PATTERN_MISMATCH": "warning",
        "ANSIBLE_HOST_KEY_CHECKING": "1",
        "ANSIBLE_CALLBACK_PLUGINS": ":".join([str(CALLBACKS), *config.paths("callback_plugins")]),
        "ANSIBLE_STDOUT_CALLBACK": "default",
        "ANSIBLE_FORCE_COLOR": "0",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_NOCOWS": "1",
        "ANSIBLE_RETRY_FILES_ENABLED": "0",
        "EXOCOMP_PROGRESS": str(attempt / PROGRESS),
    }
    if vendored is not None:
        env.update(_content(config, project, vendored))
    if not config.chooses("pipelining", "defaults", "connection", "ssh_connection"):
        env["ANSIBLE_PIPELINING"] = "1"
    if not config.chooses("interpreter_python"):
        env["ANSIBLE_PYTHON_INTERPRETER"] = "auto_silent"
    if not config.chooses("gathering") and not config.chooses("fact_caching"):
        env["ANSIBLE_GATHERING"] = "smart"
        env["ANSIBLE_CACHE_PLUGIN"] = "jsonfile"
        env["ANSIBLE_CACHE_PLUGIN_CONNECTION"] = str(facts)
        env["ANSIBLE_CACHE_PLUGIN_TIMEOUT"] = str(FACTS_LIVE_S)
    return env


def _content(config: ProjectConfig, project: Path, vendored: Path) -> dict[str, str]:
    """Where collections and roles are looked for, beside the playbook's own directory, which ansible takes first."""
    found = {}
    for name, kind, system in (
        ("ANSIBLE_COLLECTIONS_PATH", "collections", SYSTEM_COLLECTIONS),
        ("ANSIBLE_ROLES_PATH", "roles", SYSTEM_ROLES),
    ):
        chosen = config.paths(f"{kind}_path") or config.paths(f"{kind}_paths")
        places = [*chosen, str(project / kind), str(vendored / kind), *(() if chosen else (system,))]
        found[name] = ":".join(dict.fromkeys(places))
    return found
