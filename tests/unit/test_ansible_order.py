"""What the driver orders: argv, environment, files and their modes."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import pytest

from exocomp.config import Settings
from exocomp.drivers.ansible import pinned_ssh
from exocomp.errors import ExocompError, WrongUsage
from tests.ansible_runs import PUBLIC, Bench, inventory_of, new_key

PLAYBOOK = "- hosts: all\n"
EMPTY = inventory_of({})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_values_that_begin_with_a_dash_stay_values(bench: Bench) -> None:
    _, spec = bench.order(PLAYBOOK, EMPTY, limit="-x", tags="--check", skip_tags="-e", check=True, diff=True)
    argv = spec.commands[0].argv
    assert Path(argv[0]) == Path(sys.executable).parent / "ansible-playbook"
    assert {"--limit=-x", "--tags=--check", "--skip-tags=-e", "--check", "--diff"} <= set(argv)
    assert argv[-2:] == ("--", str(bench.project / "site.yml"))
    assert spec.cwd == str(bench.project)


@pytest.mark.parametrize(("hosts", "forks"), [(1, 5), (20, 20), (400, 50)])
def test_forks_follow_the_hosts_within_bounds(bench: Bench, hosts: int, forks: int) -> None:
    _, spec = bench.order(PLAYBOOK, EMPTY, hosts=tuple(f"h{number}" for number in range(hosts)))
    assert f"--forks={forks}" in spec.commands[0].argv


def test_everything_in_the_attempt_is_private(bench: Bench) -> None:
    bench.order(PLAYBOOK, EMPTY, onboarding=True, known_hosts="x")
    (bench.attempt / "inventory.json").unlink()
    for path in bench.attempt.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_nothing_of_our_own_environment_is_passed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_REMOTE_USER", "mallory")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    _, spec = bench.order(PLAYBOOK, EMPTY)
    assert not {"SSH_AUTH_SOCK", "ANSIBLE_REMOTE_USER"} & spec.env.keys()
    assert spec.companion is None
    for name in ("HOME", "TMPDIR", "ANSIBLE_HOME", "ANSIBLE_LOCAL_TEMP", "ANSIBLE_CONFIG"):
        assert spec.env[name].startswith(str(bench.attempt))
    assert spec.env["LC_ALL"] == "C.UTF-8"


def test_only_onboarding_gets_the_fleet_key_and_ours_outranks_the_operators(bench: Bench) -> None:
    theirs = {"exocomp_fleet_pubkey": "x", "ansible_ssh_executable": "/evil", "mine": "{{ 1 }}"}
    bench.order(PLAYBOOK, EMPTY, onboarding=True, extra_vars=theirs)
    variables = json.loads((bench.attempt / "extra_vars.json").read_text())
    assert variables["exocomp_fleet_pubkey"] == {"__ansible_unsafe": PUBLIC}
    assert variables["ansible_ssh_executable"] == {"__ansible_unsafe": str(bench.attempt / "ssh")}
    assert variables["mine"] == "{{ 1 }}"
    bench.order(PLAYBOOK, EMPTY)
    assert "exocomp_fleet_pubkey" not in json.loads((bench.attempt / "extra_vars.json").read_text())


def test_what_the_projects_ansible_cfg_chooses_is_kept(bench: Bench) -> None:
    (bench.project / "ansible.cfg").write_text(
        "[defaults]\ngathering = explicit\ncallback_plugins = ./cb\n[ssh_connection]\npipelining = False\n"
    )
    _, spec = bench.order(PLAYBOOK, EMPTY)
    assert spec.env["ANSIBLE_CONFIG"] == str(bench.project / "ansible.cfg")
    assert not {"ANSIBLE_GATHERING", "ANSIBLE_PIPELINING", "ANSIBLE_SSH_ARGS"} & spec.env.keys()
    assert spec.env["ANSIBLE_CALLBACK_PLUGINS"].endswith(f":{bench.project}/cb")


def test_the_nearest_ansible_cfg_above_the_playbook_counts(tmp_path: Path) -> None:
    from exocomp.drivers.ansible.project_config import ProjectConfig

    deep = tmp_path / "project" / "ansible" / "plays"
    deep.mkdir(parents=True)
    (tmp_path / "ansible.cfg").touch()
    assert ProjectConfig.of(deep / "site.yml", tmp_path / "project").path is None
    (tmp_path / "project" / "ansible" / "ansible.cfg").write_text("not an ini file")
    config = ProjectConfig.of(deep / "site.yml", tmp_path / "project")
    assert config.path == tmp_path / "project" / "ansible" / "ansible.cfg"
    assert not config.chooses("gathering")


def test_a_key_file_that_ssh_would_pass_over_is_refused(bench: Bench, tmp_path: Path) -> None:
    key = tmp_path / "key"
    with pytest.raises(ExocompError, match="No such file"):
        bench.order(PLAYBOOK, EMPTY, ssh_identities=(str(key),))
    key.touch(mode=0o644)
    key.chmod(0o644)
    with pytest.raises(ExocompError, match="mode 0644") as caught:
        bench.order(PLAYBOOK, EMPTY, ssh_identities=(str(key),))
    assert caught.value.hint == f"chmod 600 {key}"
    with pytest.raises(ExocompError, match="not a regular file"):
        bench.order(PLAYBOOK, EMPTY, ssh_identities=(str(tmp_path),))


def test_a_path_that_ssh_would_expand_is_refused() -> None:
    assert pinned_ssh.quoted(Path("/a b/50%h")) == '"/a b/50%%h"'
    with pytest.raises(WrongUsage, match="HOME"):
        pinned_ssh.quoted(Path("/a/${HOME}"))


def test_a_missing_ansible_playbook_is_named(bench: Bench) -> None:
    with pytest.raises(ExocompError, match="/nowhere/ansible-playbook"):
        bench.order(PLAYBOOK, EMPTY, settings=Settings(ansible_playbook="/nowhere/ansible-playbook"))


def test_the_fleets_private_key_is_in_no_file_environment_or_argv_of_an_attempt(bench: Bench, tmp_path: Path) -> None:
    pinned = f"web1 {new_key(tmp_path / 'host')}\n"
    new_key(bench.key)
    _, spec = bench.order(PLAYBOOK, EMPTY, known_hosts=pinned)
    assert spec.companion is not None
    assert spec.env["SSH_AUTH_SOCK"] == spec.companion.ready == str(bench.attempt / "a")
    told = json.loads(spec.companion.secret)
    seed = base64.b64decode(told["seeds"][0])
    assert told["pins"] == [{"names": ["web1"], "keys": [pinned.split()[2]]}]
    places = [path.read_bytes() for path in bench.attempt.rglob("*") if path.is_file()]
    places += [repr((spec.commands, spec.env, spec.companion.argv)).encode()]
    for form in (seed, seed.hex().encode(), told["seeds"][0].encode(), b"PRIVATE KEY", str(bench.key).encode()):
        assert not any(form in place for place in places)


def test_a_data_dir_too_deep_for_sockets_is_refused(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 80)
    deep.mkdir()
    with pytest.raises(WrongUsage, match="too long for the sockets"):
        Bench(deep).order(PLAYBOOK, EMPTY)
