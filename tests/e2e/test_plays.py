"""Plays by name over the standing inventory, rules that start them, and vendored content, on real machines."""

from __future__ import annotations

import json
import signal

import pytest

from exocomp.protocol.events import OutputsCaptured, WorkflowEnded
from exocomp.protocol.fired import RuleFired
from tests.lab.estate import WORKSPACE, Estate
from tests.lab.history import faults
from tests.vendored_content import posix

pytestmark = pytest.mark.lab
MACHINES = ("web1", "web2")
STANDING = f"tf:{WORKSPACE}"


def run(estate: Estate, play: str, *flags: str, exit: int = 0, inventory: str = STANDING) -> str:
    words = ("playbook", "run", estate.play(play), "--inventory", inventory, "--wait", *flags)
    done = estate.home.run(*words, exit=exit)
    return done.stdout + done.stderr


def told(estate: Estate, name: str) -> str:
    return estate.cloud.machine(name).run("cat /etc/told 2>/dev/null || true").strip()


def test_the_flags_of_a_play_say_where_and_what_it_runs(fleet: Estate) -> None:
    run(fleet, "tagged.yml", "--limit", "web1", "--tags", "told", "--extra-vars", '{"told": "a b"}')
    assert (told(fleet, "web1"), told(fleet, "web2")) == ("a b", "")
    assert fleet.marks("web1", "/var/lib/tagged") == 0
    (fleet.home.work / "vars.json").write_text(json.dumps({"told": "of a file"}))
    run(fleet, "tagged.yml", "--skip-tags", "marked", "--extra-vars", "@vars.json")
    assert (told(fleet, "web1"), told(fleet, "web2")) == ("of a file", "of a file")
    assert fleet.marks("web2", "/var/lib/tagged") == 0
    run(fleet, "tagged.yml", "--check", "--diff", "-e", '{"told": "checked"}')
    assert "+checked" in fleet.home.run("provision", "logs", fleet.home.view().workflow.id).stdout
    assert told(fleet, "web1") == "of a file"
    (step,) = fleet.home.json("provision", "status", fleet.home.view().workflow.id)["steps"]
    assert {host["host"] for host in step["hosts"]} == {"web1", "web2"}
    assert "matches no host" in run(fleet, "tagged.yml", "--limit", "nobody", exit=2)


def test_the_fleets_own_key_logs_in_and_each_host_is_told_when_it_was_converged(fleet: Estate) -> None:
    run(fleet, "site.yml")
    hosts = {each["host"]["name"]: each for each in fleet.home.json("host", "list")["hosts"]}
    assert set(hosts) == set(MACHINES)
    for each in hosts.values():
        assert each["pins"]
        assert each["converged_at"] is not None
    shown = fleet.home.run("host", "show", "web1").stdout
    assert "converged" in shown


def test_a_port_or_a_key_file_that_was_not_granted_is_refused_before_anything_runs(fleet: Estate) -> None:
    machine = fleet.cloud.machine("web1")
    machine.run("/usr/sbin/sshd -p 2222")
    variables = {"ansible_host": machine.address, "ansible_user": "root", "ansible_port": 2222}
    key = str(fleet.key)
    for name, more in (("by-port", {}), ("by-key", {"ansible_ssh_private_key_file": key})):
        file = fleet.home.work / f"{name}.json"
        file.write_text(json.dumps({"all": {"hosts": {"web1": variables | more}}}))
        fleet.home.run("inventory", "add", name, str(file))
    fleet.home.run("host", "onboard", machine.address, "--port", "2222", "--yes")
    before = fleet.home.json("job", "list", "-n", "1000")
    assert "--egress 2222" in run(fleet, "site.yml", inventory="by-port", exit=1)
    assert f"--ssh-identity {key}" in run(fleet, "site.yml", "--egress", "2222", inventory="by-key", exit=1)
    assert fleet.home.json("job", "list", "-n", "1000") == before
    run(fleet, "site.yml", "--egress", "2222", inventory="by-port")
    run(fleet, "site.yml", "--egress", "2222", "--ssh-identity", key, inventory="by-key")


def test_a_rule_converges_once_for_each_apply_also_over_a_kill_between_event_and_play(fleet: Estate) -> None:
    home = fleet.home
    rule = ("playbook", "rule", "add", "converge", "--on", "workspace.applied", "--match", f"workspace={WORKSPACE}")
    home.run(*rule, "--inventory", STANDING, "--", fleet.play("marks.yml"))
    marks = fleet.marks("web1", "/var/lib/ends")
    seen = len(home.of(OutputsCaptured))

    home.run("workspace", "apply", WORKSPACE, "--wait")
    await_runs(fleet, 1)
    home.kill()
    home.serve(crash_at="settle.apply.succeeded:after")
    home.run("workspace", "apply", WORKSPACE)
    assert home.wait_for_death() == -signal.SIGKILL
    assert len(home.of(OutputsCaptured)) == seen + 2
    assert len(home.of(RuleFired)) == 1
    home.serve()
    await_runs(fleet, 2)
    home.kill()
    home.serve()
    home.run("playbook", "rule", "remove", "converge", "--yes")
    assert len(home.of(RuleFired)) == 2
    assert fleet.marks("web1", "/var/lib/ends") == marks + 2
    assert faults(home.events()) == []


def await_runs(fleet: Estate, count: int) -> None:
    """The rule has fired so often, and the last of its plays has succeeded."""
    home = fleet.home
    home.wait_for(lambda event: len(home.of(RuleFired)) == count, f"fire {count} of the rule")
    workflow = home.of(RuleFired)[-1].workflow
    home.wait_for(lambda event: isinstance(event, WorkflowEnded) and event.workflow == workflow, "its end")
    assert home.view(workflow or "").workflow.state == "succeeded", home.told()


def test_the_short_chain_applies_and_configures_and_shows_its_ledger(fleet: Estate) -> None:
    home = fleet.home
    done = home.run("handoff", "run", WORKSPACE, fleet.play("site.yml"), "--wait")
    assert "web1" in done.stdout
    view = home.json("handoff", "status")
    assert [(row["step"]["name"], row["step"]["state"]) for row in view["steps"]] == [
        ("apply", "succeeded"),
        ("configure", "succeeded"),
    ]
    home.run("handoff", "run", WORKSPACE, fleet.play("broken.yml"), "--wait", exit=1)
    shown = home.run("handoff", "status").stdout
    assert "provision retry" in shown
    assert "failed" in shown


def test_an_onboarding_that_needs_a_vendored_collection_runs_with_no_way_to_galaxy(estate: Estate) -> None:
    home = estate.home
    archive = posix()
    (home.work / "requirements.yml").write_text(f"collections:\n  - source: {archive}\n    type: file\n")
    estate.order("web1")
    home.serve()
    estate.register()
    words = estate.chain("site.yml", "--wait", "--onboard-playbook", estate.play("posix_onboarding.yml"))
    assert "ansible.posix.authorized_key" in home.run(*words, exit=1).stdout
    home.run("playbook", "vendor", "--requirements", "requirements.yml")
    home.run("provision", "retry", home.view().workflow.id, "--wait")
    public = home.json("fleet-key", "show")["public_key"].split()[1]
    assert public in estate.cloud.machine("web1").read("/root/.ssh/authorized_keys")
    assert set(home.states().values()) == {"succeeded"}
