"""The jails as data: what a play and an engine may reach, and nothing else."""

from __future__ import annotations

from pathlib import Path

from exocomp.actors import jails
from exocomp.model import Generation, Tier, Workspace
from exocomp.protocol.jobs import PlayJob, TofuJob, Verb

DATA = Path("/var/lib/exocomp")
ATTEMPT = DATA / "jobs" / "job_1" / "1"
GENERATION = Generation(inventory="tf:edge", number=1, path="/g.json", digest="x", hosts=(), created_at=0.0)
SPACE = Workspace(name="edge", directory="/home/op/infra", root="/home/op/infra")


def play(tier: Tier = Tier.ENFORCING, **fields):
    job = PlayJob(playbook="/home/op/play/site.yml", generation=GENERATION, **fields)
    return jails.of_play(
        job, ATTEMPT, DATA / "stage" / "abc", DATA / "facts" / "wf_1", "/venv/bin/ansible-playbook", tier
    )


def engine(tier: Tier = Tier.ENFORCING, egress: tuple[int, ...] = ()):
    job = TofuJob(verb=Verb.APPLY, workspace=Workspace(name="edge", directory="/m", root="/m", egress=egress))
    return jails.of_engine(job, ATTEMPT, DATA / "workspaces" / "edge", "/opt/tofu/tofu", tier)


def all_paths(jail) -> set[str]:
    return {*jail.read, *jail.execute, *jail.write, *(path for pair in jail.files for path in pair)}


def test_a_play_connects_to_port_22_and_to_what_was_granted() -> None:
    assert play().connect == (22,)
    assert play(egress=(2222, 22, 443, 2222)).connect == (22, 2222, 443)


def test_an_engine_connects_to_its_apis_and_to_what_the_workspace_was_granted() -> None:
    assert engine().connect == (443, 53)
    assert engine(egress=(8080,)).connect == (443, 53, 8080)


def test_a_play_writes_only_in_directories_of_its_own_attempt_and_its_facts() -> None:
    own = {str(ATTEMPT / name) for name in ("home", "tmp", "c", "told/progress")}
    assert set(play().write) == own | {str(DATA / "facts" / "wf_1"), "/tmp"}


def test_no_jail_opens_the_ledger_the_keys_another_attempt_or_the_operators_home() -> None:
    forbidden = [
        DATA,
        DATA / "exocomp.db",
        DATA / "keys",
        DATA / "jobs",
        DATA / "jobs" / "job_2",
        Path("/home/op"),
        Path("/root/.ssh"),
        Path("/run"),
    ]
    for jail in (play(), engine()):
        for path in all_paths(jail):
            assert not any(wall == Path(path) or wall.is_relative_to(path) for wall in forbidden), path


def test_a_plays_jail_holds_no_state_and_an_engines_no_keys() -> None:
    assert not any("workspaces" in path for path in all_paths(play()))
    assert not any(path.startswith(str(DATA / "stage")) for path in all_paths(engine()))


def test_an_identity_is_one_file_at_its_own_place() -> None:
    files = play(ssh_identities=("/home/op/.ssh/id", "/home/op/.ssh/id")).files
    assert files[-1] == ("/home/op/.ssh/id", "/home/op/.ssh/id")
    assert [place for _, place in files[:-1]] == ["/etc/hosts", "/etc/passwd"]


def test_the_jobs_home_is_the_home_of_its_user() -> None:
    text = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:/bin/sh\n"
    assert jails.passwd(text, 0, Path("/a/home")).splitlines()[0] == "root:x:0:0:root:/a/home:/bin/bash"
    assert "daemon:x:1:1::/:/bin/sh" in jails.passwd(text, 0, Path("/a/home"))
    assert jails.passwd(text, 61001, Path("/a/home")).splitlines()[0] == "exocomp:x:61001:61001::/a/home:/bin/sh"


def test_proc_is_shown_only_where_it_is_the_jobs_own() -> None:
    for make in (play, engine):
        assert "/proc" in make(Tier.ENFORCING).read
        assert "/proc" not in make(Tier.DEGRADED).read


def test_names_are_asked_for_over_tcp_at_the_machines_own_servers() -> None:
    text = "# x\nnameserver 192.0.2.53\nsearch example.test\noptions edns0 trust-ad\n"
    assert jails.resolver(text) == "nameserver 192.0.2.53\nsearch example.test\noptions use-vc\n"
    assert jails.resolver("") == "options use-vc\n"
