"""Settings: precedence, origins, and clear errors for what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from exocomp.config import resolve
from exocomp.errors import WrongUsage


def config(tmp_path: Path, text: str) -> dict[str, str]:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return {"EXOCOMP_CONFIG": str(file)}


def test_flags_beat_environment_beats_file_beats_defaults(tmp_path: Path) -> None:
    env = config(tmp_path, 'workers = 3\nengine = "tofu"\nsocket = "/run/x.sock"\n') | {"EXOCOMP_WORKERS": "5"}
    resolved = resolve({"data_dir": "/d", "workers": None}, env)
    settings = resolved.settings
    assert (settings.data_dir, settings.workers, settings.engine, settings.job_timeout_s) == (
        "/d",
        5,
        "tofu",
        14400.0,
    )
    assert resolved.origin["data_dir"] == "flag"
    assert resolved.origin["workers"] == "environment"
    assert resolved.origin["engine"].endswith("config.toml")
    assert resolved.origin["stage_limit_mib"] == "default"


def test_systemds_directories_are_the_services_defaults(tmp_path: Path) -> None:
    env = config(tmp_path, "") | {"STATE_DIRECTORY": "/var/lib/exocomp", "RUNTIME_DIRECTORY": "/run/exocomp"}
    settings = resolve({}, env).settings
    assert (settings.data_dir, settings.socket) == ("/var/lib/exocomp", "/run/exocomp/exocomp.sock")


def test_the_socket_lies_in_the_data_dir_by_default(tmp_path: Path) -> None:
    assert resolve({"data_dir": "/d"}, config(tmp_path, "")).settings.socket == "/d/run/exocomp.sock"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("wrokers = 3", "unknown key 'wrokers'"),
        ("workers = ", "not TOML"),
        ('workers = "many"', "bad setting"),
    ],
)
def test_a_config_file_that_does_not_fit_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(WrongUsage, match=says):
        resolve({}, config(tmp_path, text))


def test_a_value_that_does_not_fit_is_named_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage) as told:
        resolve({}, config(tmp_path, 'workers = "many"'))
    assert told.value.what == "bad setting workers 'many': expected `int`"
    assert told.value.hint == f"correct workers in {tmp_path}/config.toml, or remove it"
    with pytest.raises(WrongUsage) as told:
        resolve({}, config(tmp_path, "") | {"EXOCOMP_SANDBOX": "none"})
    assert "'none'" in told.value.what
    assert told.value.hint == "correct EXOCOMP_SANDBOX, or remove it"


def test_a_named_config_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="cannot read"):
        resolve({}, {"EXOCOMP_CONFIG": str(tmp_path / "none.toml")})


@pytest.mark.parametrize(
    ("name", "value"), [("workers", "0"), ("workers", "-3"), ("job_timeout_s", "0"), ("job_timeout_s", "nan")]
)
def test_a_number_that_nothing_could_run_with_is_refused(name: str, value: str) -> None:
    with pytest.raises(WrongUsage, match=name):
        resolve({}, {"EXOCOMP_CONFIG": "/dev/null", f"EXOCOMP_{name.upper()}": value})
