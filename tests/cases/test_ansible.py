"""Cases of ansible's exit codes, extra-vars and surroundings, each through the real ansible-playbook."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exocomp.drivers.ansible import outcome, record
from tests.ansible_runs import LOCAL, Bench, inventory_of, new_key, sshd

CASES = Path(__file__).parent / "ansible"
KEYS = (CASES / "ans-02-extra-vars-key" / "keys.txt").read_text("utf-8").splitlines()
OK = "- {hosts: all, gather_facts: false, tasks: [{command: 'true'}]}\n"
DEAD = {"ansible_host": "127.0.0.1", "ansible_port": 9}
ONE = inventory_of({"a": LOCAL})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# playbook, inventory, options of the job → part of the reason ("" is success), part of the hint
EXIT_CODES = {
    "ok": (OK, ONE, {}, "", ""),
    "task failed": (OK.replace("true", "false"), ONE, {}, "host a failed at task 'command'", "log"),
    "unreachable": (OK, inventory_of({"b": DEAD}), {"hosts": ("b",)}, "host b was unreachable", "machine is up"),
    "one ok one unreachable": (
        OK,
        inventory_of({"a": LOCAL, "b": DEAD}),
        {"hosts": ("a", "b")},
        "host b was unreachable",
        "",
    ),
    "hostless inventory": (OK, inventory_of({}), {"hosts": ()}, "", ""),
    "hostless file for hosts": (OK, inventory_of({}), {}, "no host of inventory tf:edge (1 host) matches 'all'", ""),
    "broken yaml": (OK, "{all: [", {}, "parse inventory", "ansible_inventory"),
    "empty object": (OK, "{}", {}, "parse inventory", "ansible_inventory"),
    "hosts list": (OK, '{"all": {"hosts": ["a"]}}', {}, "parse inventory", "ansible_inventory"),
    "limit no match": (OK, ONE, {"limit": "zzz"}, "leaves us with no hosts", "--limit"),
    "typo group": (OK.replace("all", "webb"), ONE, {}, "matches 'webb'", "exocomp inventory show tf:edge"),
    "typo group, check": (OK.replace("all", "webb"), ONE, {"check": True}, "matches 'webb'", "hosts:"),
    "limit of another play": (
        OK.replace("all", "b"),
        inventory_of({"a": LOCAL, "b": LOCAL}),
        {"limit": "a"},
        "--limit 'a'",
        "",
    ),
    "absent group beside a match": (OK + OK.replace("all", "db"), ONE, {}, "", ""),
    "no task has the tag": (OK, ONE, {"tags": "nope"}, "no task ran on any host with these tags", "tags"),
    "syntax": ("- {hosts: all, tsks: []}\n", ONE, {}, "'tsks' is not a valid attribute", "correct the playbook"),
    "empty list": ("[]\n", ONE, {}, "must contain at least one play", "correct the playbook"),
    "zero bytes": ("", ONE, {}, "Empty playbook", "correct the playbook"),
    "first play unreachable (ans-09)": (
        OK + OK,
        inventory_of({"b": DEAD}),
        {"hosts": ("b",)},
        "host b was unreachable",
        "",
    ),
}


@pytest.mark.parametrize("case", EXIT_CODES)
def test_ans_00_exit_codes_are_reconciled_with_what_was_done(bench: Bench, case: str) -> None:
    playbook, inventory, options, reason, hint = EXIT_CODES[case]
    verdict, results = bench.play(playbook, inventory, **options)
    assert verdict.ok == (not reason), bench.log
    assert reason in verdict.reason
    assert "\n" not in verdict.reason
    assert hint in verdict.hint
    if case == "one ok one unreachable":
        assert {name: result.outcome for name, result in results.items()} == {"a": "changed", "b": "unreachable"}


def test_ans_00_a_missing_inventory_is_a_failure(bench: Bench) -> None:
    job, spec = bench.order(OK, ONE)
    (bench.attempt / "inventory.json").unlink()
    verdict, _ = outcome.judge(job, bench.run(spec), bench.attempt)
    assert "parse inventory" in verdict.reason


def test_ans_02_public_keys_arrive_as_they_are(bench: Bench) -> None:
    playbook = (
        "- {hosts: all, gather_facts: false, tasks: [{debug: {msg: '{{ mine }} {{ exocomp_fleet_pubkey }}'}}]}\n"
    )
    for key in KEYS:
        verdict, _ = bench.play(playbook, ONE, onboarding=True, fleet_public=key, extra_vars={"mine": "{{ 6 * 7 }}"})
        assert verdict.ok, bench.log
        lines = (bench.attempt / record.PROGRESS).read_text("utf-8").splitlines()
        assert [line.msg for line in map(record.parse, lines) if isinstance(line, record.OnHost)] == [f"42 {key}"]


def test_ans_04_a_world_writable_project_keeps_its_ansible_cfg(bench: Bench) -> None:
    (bench.project / "ansible.cfg").write_text("[defaults]\nremote_user = from-cfg\n")
    bench.project.chmod(0o777)
    playbook = """
- hosts: all
  gather_facts: false
  tasks: [{assert: {that: "lookup('config', 'DEFAULT_REMOTE_USER') == 'from-cfg'"}}]
"""
    assert bench.play(playbook, ONE)[0].ok, bench.log


def test_ans_05_and_12_the_daemons_locale_and_home_do_not_matter(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.delenv("HOME", raising=False)
    assert bench.play(OK, ONE)[0].ok, bench.log


def test_ans_07_a_prompt_fails_and_never_hangs(bench: Bench) -> None:
    prompt = "- {hosts: all, vars_prompt: [{name: x, prompt: x}], gather_facts: false, tasks: [{debug: {var: x}}]}\n"
    bench.play(prompt, ONE)
    vault = "- {hosts: all, vars: {x: !vault '$ANSIBLE_VAULT;1.1;AES256\\n33'}, tasks: [{debug: {var: x}}]}\n"
    assert not bench.play(vault, ONE)[0].ok


@pytest.mark.skipif(os.geteuid() != 0, reason="sshd lets only root in here")
def test_kh_16_pins_work_below_a_path_with_space_and_percent(tmp_path: Path) -> None:
    odd = tmp_path / "sp ace 50%h"
    odd.mkdir()
    bench = Bench(odd)
    with sshd(tmp_path) as server:
        server.authorize(new_key(bench.key))
        twice = OK.replace("'true'}", "'true'}, {copy: {content: x, dest: '" + str(tmp_path / "x") + "'}}")
        verdict, _ = bench.play(twice, server.inventory(), known_hosts=server.known_hosts)
        assert verdict.ok, bench.log
        assert not bench.play(OK, server.inventory())[0].ok
