"""The callback inside a real ansible-playbook over local connections."""

from __future__ import annotations

import msgspec
import pytest

from exocomp.drivers.ansible import record
from tests.ansible_runs import LOCAL, Bench, inventory_of

ONE = inventory_of({"a": LOCAL})


@pytest.fixture
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("play"))


def lines(bench: Bench) -> list[record.Line]:
    raw = (bench.attempt / record.PROGRESS).read_bytes().splitlines()
    found = [record.parse(line) for line in raw]
    assert None not in found
    return [line for line in found if line is not None]


def test_tasks_items_faults_and_the_recap_are_recorded(bench: Bench) -> None:
    playbook = """
- name: naïve 鍵
  hosts: all
  gather_facts: false
  tasks:
    - {name: secret, command: "echo hunter2 {{ item }}", loop: [hunter3], no_log: true}
    - {name: loop, command: "test {{ item }} = 1", loop: ["1", "2"], ignore_errors: true}
    - {name: huge, debug: {msg: "{{ 'x' * 100000 }}"}}
    - {name: skip, command: id, when: false}
    - {name: output, shell: "echo first; echo LAST >&2; exit 3"}
"""
    verdict, results = bench.play(playbook, ONE)
    assert verdict.reason == "host a failed at task 'output': exit code 3: LAST"
    assert results["a"].failed == 1
    text = (bench.attempt / record.PROGRESS).read_text()
    assert "hunter" not in text
    assert max(map(len, text.splitlines())) < 1000
    found = lines(bench)
    assert found[0] == record.Play(name="naïve 鍵", pattern="all", hosts=("a",))
    assert found[-1] == record.End()
    states = [(line.task, line.state, line.ignored) for line in found if isinstance(line, record.OnHost)]
    assert states == [
        ("secret", "changed", False),
        ("loop", "failed", True),
        ("huge", "ok", False),
        ("skip", "skipped", False),
        ("output", "failed", False),
    ]
    items = [(line.item, line.state) for line in found if isinstance(line, record.Item)]
    assert items == [("", "changed"), ("1", "changed"), ("2", "failed")]
    assert "TASK [output]" in bench.log


def test_a_play_that_ends_early_or_runs_once_is_a_success(bench: Bench) -> None:
    playbook = """
- hosts: all
  gather_facts: false
  tasks:
    - {meta: end_host, when: inventory_hostname == "b"}
    - {command: "true"}
- hosts: all
  gather_facts: false
  serial: 1
  tasks: [{command: "true", run_once: true}]
"""
    verdict, _ = bench.play(playbook, inventory_of({"a": LOCAL, "b": LOCAL}), hosts=("a", "b"))
    assert verdict.ok, verdict
    assert [line.hosts for line in lines(bench) if isinstance(line, record.Play)] == [("a", "b"), ("a",), ("b",)]


def test_a_record_that_cannot_be_written_breaks_no_play(bench: Bench) -> None:
    playbook = "- {hosts: all, gather_facts: false, tasks: [{command: touch done}]}\n"
    _, spec = bench.order(playbook, ONE)
    for path in ("/nowhere/progress", "/dev/full"):
        (bench.project / "done").unlink(missing_ok=True)
        spec = msgspec.structs.replace(spec, env={**spec.env, "EXOCOMP_PROGRESS": path})
        assert bench.run(spec).code == 0
        assert (bench.project / "done").exists()
        assert "exocomp_lines" in bench.log


def test_facts_are_gathered_once_for_plays_that_share_a_cache(bench: Bench) -> None:
    playbook = "- hosts: all\n  tasks: [{assert: {that: ansible_facts.kernel is defined}}]\n"
    assert bench.play(playbook, ONE)[0].ok
    assert "Gathering Facts" in bench.log
    assert bench.play(playbook, ONE)[0].ok
    assert "Gathering Facts" not in bench.log
