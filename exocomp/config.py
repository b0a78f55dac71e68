"""Settings: flags > EXOCOMP_* environment > config file > defaults, each value with its origin; and the data dir."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import platformdirs

from exocomp.errors import WrongUsage
from exocomp.model import Tier

SYSTEM_FILE = Path("/etc/exocomp/exocomp.toml")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting with its default; the config file has these names as its keys."""

    data_dir: str = ""
    socket: str = ""
    workers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 8  # jobs that run at once
    engine: str = ""  # "tofu", "terraform" or a path; empty: tofu when present, else terraform
    ansible_playbook: str = ""  # empty: the one of exocomp's own environment
    pass_env: tuple[str, ...] = ()  # names (a trailing * allowed) of the daemon's environment that tofu jobs get
    stage_limit_mib: Annotated[int, msgspec.Meta(ge=1)] = 256
    job_timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 4 * 3600.0
    on_stop: Literal["leave", "finish"] = "leave"  # SIGTERM: leave running jobs to the next daemon, or wait for them
    approval_expires_s: Annotated[float, msgspec.Meta(gt=0)] = 7 * 86400.0  # how long a plan waits for a decision
    approver_is_not_requester: bool = False  # whoever asked for a workflow may not decide on its plan
    sandbox: Tier = Tier.ENFORCING  # what stands around every job; less only by this setting


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """Settings and, for each name, where its value came from."""

    settings: Settings
    origin: dict[str, str]


class Layout(msgspec.Struct, frozen=True):
    """Where things lie in the data dir; all of it is 0700, every file in it 0600."""

    root: Path

    @property
    def store(self) -> Path:
        return self.root / "exocomp.db"

    @property
    def daemon_lock(self) -> Path:
        return self.root / "daemon.lock"

    @property
    def inventories(self) -> Path:
        return self.root / "inventories"

    @property
    def workspaces(self) -> Path:
        return self.root / "workspaces"

    @property
    def stage(self) -> Path:
        return self.root / "stage"

    @property
    def facts(self) -> Path:
        return self.root / "facts"

    @property
    def vendor(self) -> Path:
        return self.root / "vendor"

    @property
    def plans(self) -> Path:
        return self.root / "plans"

    @property
    def master_key(self) -> Path:
        return self.root / "master.key"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    def attempt(self, job: str, number: int) -> Path:
        """The private directory of one attempt; short, because ssh control sockets lie in it."""
        return self.root / "jobs" / job / str(number)


def resolve(flags: Mapping[str, Any], env: Mapping[str, str] = os.environ) -> Resolved:
    """Merge the sources; raises WrongUsage naming the source and the key of a value that does not fit."""
    values: dict[str, Any] = {}
    origin: dict[str, str] = {name: "default" for name in Settings.__struct_fields__}
    for file in _files(env):
        _merge(values, origin, _read(file), str(file))
    from_env = {
        name: _from_text(name, env[key])
        for name in Settings.__struct_fields__
        if (key := f"EXOCOMP_{name.upper()}") in env
    }
    _merge(values, origin, from_env, "environment")
    _merge(values, origin, {k: v for k, v in flags.items() if v is not None}, "flag")
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise _misfit(str(error), values, origin) from None
    data_dir = settings.data_dir or _default_data_dir(env)
    settings = msgspec.structs.replace(
        settings, data_dir=data_dir, socket=settings.socket or _default_socket(data_dir, env)
    )
    return Resolved(settings=settings, origin=origin)


def _misfit(error: str, values: Mapping[str, Any], origin: Mapping[str, str]) -> WrongUsage:
    expected, _, path = error.partition(" - at `$.")
    name = path.rstrip("`").partition("[")[0]
    if name not in values:
        return WrongUsage(f"bad setting: {error}")
    where = f"EXOCOMP_{name.upper()}" if origin[name] == "environment" else f"{name} in {origin[name]}"
    expected = expected.partition(", got")[0].replace("Expected", "expected")
    return WrongUsage(f"bad setting {name} {values[name]!r}: {expected}", hint=f"correct {where}, or remove it")


def _files(env: Mapping[str, str]) -> list[Path]:
    if named := env.get("EXOCOMP_CONFIG"):
        return [Path(named)]
    user = Path(platformdirs.user_config_dir("exocomp")) / "config.toml"
    return [file for file in (SYSTEM_FILE, user) if file.is_file()]


def _read(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise WrongUsage(f"cannot read config file {file}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise WrongUsage(f"config file {file} is not TOML: {error}") from None
    for key in values:
        if key not in Settings.__struct_fields__:
            known = ", ".join(Settings.__struct_fields__)
            raise WrongUsage(f"config file {file} has an unknown key {key!r}", hint=f"known keys: {known}")
    return values


def _from_text(name: str, text: str) -> Any:
    return tuple(text.split()) if name == "pass_env" else text


def _merge(values: dict[str, Any], origin: dict[str, str], more: Mapping[str, Any], source: str) -> None:
    values.update(more)
    origin.update(dict.fromkeys(more, source))


def _default_data_dir(env: Mapping[str, str]) -> str:
    # systemd sets STATE_DIRECTORY and RUNTIME_DIRECTORY for the service (systemd.exec(5)).
    if state := env.get("STATE_DIRECTORY"):
        return state.split(":")[0]
    return platformdirs.user_state_dir("exocomp")


def _default_socket(data_dir: str, env: Mapping[str, str]) -> str:
    if runtime := env.get("RUNTIME_DIRECTORY"):
        return str(Path(runtime.split(":")[0]) / "exocomp.sock")
    return str(Path(data_dir) / "run" / "exocomp.sock")
