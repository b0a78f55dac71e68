"""The record is the job's to write: whatever lies at its place, reading it ends, and within bounds."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exocomp.drivers.ansible import outcome, pinned_ssh, record
from exocomp.drivers.ansible.progress import decode
from exocomp.errors import ExocompError, WrongUsage
from exocomp.model import Exit, Generation
from exocomp.protocol.jobs import PlayJob

# Only a guard: what is tested here held up its reader for ever, or took all memory.
pytestmark = pytest.mark.timeout(120)

END = b'{"e": "end"}\n'
RECAP = {"e": "recap", "host": "a", "ok": 1}
DEEP = 200_000
MEMORY = 1 << 30

# In a process of its own, which may be given little memory.
READ = """
import resource, sys
from pathlib import Path
from exocomp.drivers.ansible import record
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
story = record.read(Path(sys.argv[1]))
print(story.ended, story.hosts)
"""


@pytest.fixture
def told(tmp_path: Path) -> Path:
    path = tmp_path / record.PROGRESS
    path.parent.mkdir()
    return path


def read_in_little_memory(attempt: Path) -> str:
    argv = [sys.executable, "-c", READ, str(attempt), str(MEMORY)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def assert_proves_nothing(attempt: Path) -> None:
    assert record.read(attempt) == record.Story()
    generation = Generation(inventory="tf:edge", number=1, path="", digest="", created_at=0.0, hosts=())
    verdict, hosts = outcome.judge(
        PlayJob(playbook="/p/site.yml", generation=generation), Exit(code=0, command="play"), attempt
    )
    assert not verdict.ok
    assert "no record says that the playbook came to its end" in verdict.reason
    assert hosts == ()


def test_a_fifo_as_record_holds_nobody_up(told: Path, tmp_path: Path) -> None:
    os.mkfifo(told)
    assert_proves_nothing(tmp_path)


def test_a_fifo_with_a_writer_tells_nothing_either(told: Path, tmp_path: Path) -> None:
    os.mkfifo(told)
    writer = os.open(told, os.O_RDWR)
    try:
        os.write(writer, END)
        assert_proves_nothing(tmp_path)
    finally:
        os.close(writer)


def test_a_link_as_record_is_not_followed(told: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(END)
    told.symlink_to(elsewhere)
    assert_proves_nothing(tmp_path)


def test_a_directory_as_record_tells_nothing_and_leaves_no_descriptor_open(told: Path, tmp_path: Path) -> None:
    told.mkdir()
    before = len(os.listdir("/proc/self/fd"))
    assert_proves_nothing(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_socket_as_record_tells_nothing(told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(told.parent)  # its path may be too long for sun_path
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(told.name)
    assert_proves_nothing(tmp_path)


def test_a_record_that_cannot_be_read_is_not_taken_for_an_empty_one(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    told.write_bytes(END)
    monkeypatch.setattr(record.os, "open", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        record.read(tmp_path)


def test_a_hole_of_a_tebibyte_is_not_read_to_its_end(told: Path, tmp_path: Path) -> None:
    with told.open("wb") as file:
        file.write(json.dumps(RECAP).encode() + b"\n")
        file.seek(1 << 40)
        file.write(b"\n" + END)
    assert read_in_little_memory(tmp_path) == "False ['a']"


def test_a_line_longer_than_any_of_ours_is_passed_over_and_the_next_is_read(told: Path, tmp_path: Path) -> None:
    with told.open("wb") as file:
        file.write(b'{"e": "recap", "host": "forged", "pad": "')
        file.write(b"x" * record.LONGEST_LINE)
        file.write(b'"}\n' + json.dumps(RECAP).encode() + b"\n" + END)
    story = record.read(tmp_path)
    assert (story.ended, story.hosts) == (True, ["a"])


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_a_line_of_very_deep_json_is_a_foreign_one(opening: bytes, told: Path, tmp_path: Path) -> None:
    deep = opening * DEEP
    lines = (deep, b'{"e": "end", "more": ' + deep, b'{"e": ' + deep, b'{"e": "play", "hosts": ' + deep)
    for line in lines:
        assert record.parse(line) is None
        assert decode(line.decode()) is None
    told.write_bytes(b"\n".join([*lines, json.dumps(RECAP).encode(), END]))
    story = record.read(tmp_path)
    assert (story.ended, story.hosts) == (True, ["a"])


LONG = "x" * 4097


@pytest.mark.parametrize(
    "line",
    [
        {**RECAP, "host": LONG},
        {**RECAP, "ok": -1},
        {**RECAP, "ok": 10**9 + 1},
        {**RECAP, "failed": 1 << 70},
        {**RECAP, "ok": 1.5},
        {"e": "host", "host": "a", "state": "failed", "task": "t", "msg": LONG},
        {"e": "host", "host": "a", "state": LONG, "task": "t"},
        {"e": "host", "host": "a", "state": "ok", "task": LONG},
        {"e": "item", "host": "a", "state": "failed", "task": "t", "item": LONG},
        {"e": "retry", "host": "a", "task": "t", "msg": LONG},
        {"e": "play", "name": "p", "pattern": LONG},
        {"e": "play", "name": "p", "hosts": ["a", LONG]},
        {"e": "task", "name": LONG},
        {"e": "warning", "msg": LONG},
    ],
    ids=lambda line: f"{line['e']}-{'-'.join(name for name, value in line.items() if value not in ('a', 't', 'p'))}",
)
def test_texts_and_counts_that_our_callback_never_writes_make_a_line_foreign(line: dict[str, Any]) -> None:
    def shorter(value: Any) -> Any:
        if isinstance(value, list):
            return [shorter(each) for each in value]
        return value[:4096] if isinstance(value, str) else 1

    assert record.parse(json.dumps(line)) is None
    assert record.parse(json.dumps({name: shorter(value) for name, value in line.items()})) is not None


def test_any_number_of_hosts_fills_neither_the_ledger_nor_the_day(told: Path, tmp_path: Path) -> None:
    hosts = [f"h{number}" for number in range(record.MOST_HOSTS)]
    with told.open("w") as file:
        file.write(json.dumps({"e": "play", "name": "p", "hosts": hosts}) + "\n")
        file.write(json.dumps({"e": "play", "name": "p", "hosts": ["one more"]}) + "\n")
        file.write(json.dumps({"e": "play", "name": "p", "hosts": hosts}) + "\n")
        # One look at each host for each task would be ten thousand million.
        file.write((json.dumps({"e": "task", "name": "t"}) + "\n") * record.MOST_HOSTS)
        for kind in ("recap", "host"):
            for number in range(record.MOST_HOSTS):
                file.write(f'{{"e": "{kind}", "host": "{kind}{number}", "state": "ok", "task": "t"}}\n')
    story = record.read(tmp_path)
    assert story.due == story.matched == set(hosts)
    assert story.plays == 3
    assert len(story.hosts) == record.MOST_HOSTS


def test_what_is_told_of_a_known_host_counts_also_when_there_is_no_room_for_another(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "MOST_HOSTS", 1)
    failed = {"e": "host", "host": "a", "state": "failed", "task": "t"}
    lines = (failed, {**failed, "host": "b"}, {**RECAP, "failed": 1}, {**RECAP, "host": "b"})
    told.write_text("".join(json.dumps(line) + "\n" for line in lines))
    story = record.read(tmp_path)
    assert (story.hosts, list(story.faults), story.counts("a").failed) == (["a"], ["a"], 1)


def test_a_verdict_names_only_some_of_the_patterns_that_match_nobody(told: Path, tmp_path: Path) -> None:
    with told.open("w") as file:
        for number in range(10_000):
            file.write(json.dumps({"e": "play", "name": "p", "pattern": f"p{number}"}) + "\n")
    story = record.read(tmp_path)
    assert (story.plays, len(story.unmatched)) == (10_000, record.MOST_UNMATCHED)


def test_text_that_no_ledger_can_keep_makes_a_line_foreign() -> None:
    assert record.parse(rb'{"e": "recap", "host": "\ud800"}') is None
    assert record.parse(b'{"e": "recap", "host": "\xed\xa0\x80"}') is None


def private(path: Path) -> Path:
    path.write_text("key")
    path.chmod(0o600)
    return path


def test_a_key_is_what_lies_past_every_link(tmp_path: Path) -> None:
    key = private(tmp_path / "id")
    (tmp_path / "near").symlink_to("id")
    (tmp_path / "far").symlink_to(tmp_path / "near")
    assert pinned_ssh.identity(str(tmp_path / "far"), outside=tmp_path / "data") == key


@pytest.mark.parametrize("how", ["plain", "link", "parent", "dots", "linked data dir"])
def test_no_file_of_the_data_dir_is_taken_for_a_key(how: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "beside").mkdir()
    key = private(data / "exocomp.db")
    (tmp_path / "link").symlink_to(key)
    (tmp_path / "parent").symlink_to(data)
    named = {
        "plain": key,
        "link": tmp_path / "link",
        "parent": tmp_path / "parent" / key.name,
        "dots": f"{tmp_path}/beside/../data/{key.name}",
        "linked data dir": key,
    }[how]
    outside = tmp_path / "parent" if how == "linked data dir" else data
    with pytest.raises(WrongUsage, match="no job is shown what lies in"):
        pinned_ssh.identity(str(named), outside=outside)
    assert pinned_ssh.identity(str(private(tmp_path / "database")), outside=outside)


@pytest.mark.parametrize("name", ["/proc/self/environ", "/sys/kernel/uevent_seqnum", "/dev/null", "/dev/shm/x"])
def test_no_file_of_the_kernel_is_taken_for_a_key(name: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(name)
    for named in (name, str(tmp_path / "link")):
        with pytest.raises(WrongUsage, match="no job is shown what lies in"):
            pinned_ssh.identity(named)


def test_a_link_through_proc_leads_to_the_file_itself(tmp_path: Path) -> None:
    key = private(tmp_path / "id")
    with key.open() as file:
        assert pinned_ssh.identity(f"/proc/self/fd/{file.fileno()}") == key
        key.unlink()
        with pytest.raises(ExocompError):  # what was deleted can't be shown by its name
            pinned_ssh.identity(f"/proc/self/fd/{file.fileno()}")


def test_neither_a_fifo_nor_a_directory_is_a_key_and_no_descriptor_stays_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    before = os.listdir("/proc/self/fd")
    for path in (tmp_path / "fifo", tmp_path):
        with pytest.raises(ExocompError, match="not a regular file"):
            pinned_ssh.identity(str(path))
    assert os.listdir("/proc/self/fd") == before
