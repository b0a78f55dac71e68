"""Plays and modules that mean harm, through the real daemon: each attack meets its wall, none leaves a trace."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import vendored_content
from tests.lab.history import faults
from tests.lab.home import Home

OTHERS = (
    *(f"workspaces/other/{name}" for name in ("plugins", "engine", "tree")),
    "facts/other",
    "jobs/job_other/1",
)
HOST = """
output "ansible_inventory" {
  value = { all = { hosts = { here = {
    ansible_connection = "local"
  } } } }
}
"""
PLAY = """
- hosts: all
  gather_facts: false
  roles: [greeter]
  vars:
    role_into: "{{ lookup('env', 'HOME') }}/into"
  tasks:
    - ansible.builtin.command: "{{ ansible_playbook_python }} {{ playbook_dir }}/attack.py DATA ROLE"
"""
FORGING_PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.command: "{{ ansible_playbook_python }} {{ playbook_dir }}/forge.py"
    - ansible.builtin.fail: {msg: on purpose}
"""
FORGE = r"""
import json, os
with open(os.path.dirname(os.environ["HOME"]) + "/told/progress", "a") as file:
    for host in ("here", "elsewhere", "a\nsucceeded", "b\x1b[2J\x1b[31mred", "c\u202egnp"):
        for line in ({"e": "host", "host": host, "state": "ok", "task": host},
                     {"e": "recap", "host": host, "ok": 1}):
            file.write(json.dumps(line) + "\n")
    file.write(json.dumps({"e": "end"}) + "\n")
"""
LOCAL_EXEC = """
resource "terraform_data" "x" {{
  provisioner "local-exec" {{ command = "{python} ${{path.module}}/attack.py {data} none" }}
}}
"""
# Prints nothing: what came of each attack lies in the job's own home.
ATTACK = r"""
import errno, json, os, socket, sys

DATA, OWN = sys.argv[1], os.environ["HOME"]
ATTEMPT, HERE = os.path.dirname(OWN), os.path.dirname(os.path.abspath(__file__))
MARK = "for" + "ged"


def write(path):
    with open(path, "w") as file:
        file.write(MARK)


def connect(path):
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)


def replace(path):
    write(OWN + "/" + MARK)
    os.rename(OWN + "/" + MARK, path)


def link(path):
    os.symlink(OWN + "/" + MARK, path)


def failure(attack, *words):
    try:
        attack(*words)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "through"


def double_fork():
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.execv("/bin/sh", ["sh", "-c", "exec sleep 600"])


found = {}
for name in ("exit.json", ".exit.json.tmp", "shim.json", "log", "lock", "source.json", "outputs.json",
             "state-before.json", "state-earlier.json", "hosts", "resolv.conf", "more"):
    for attack in (write, replace, link, os.mkdir):
        found[f"{attack.__name__} {name}"] = failure(attack, f"{ATTEMPT}/{name}")
found["move home"] = failure(os.rename, OWN, ATTEMPT + "/moved")
found["socket of the daemon"] = failure(connect, DATA + "/run/exocomp.sock")
found["socket of another job"] = failure(connect, DATA + "/jobs/job_other/1/a")
found["write the project"] = failure(write, HERE + "/site.yml")
found["add to the project"] = failure(write, HERE + "/more.yml")
found["unlink the project"] = failure(os.unlink, HERE + "/attack.py")
found["open the project"] = failure(os.chmod, HERE, 0o777)
for place in ("stage", "vendor", "workspaces", "facts", "keys", "inventories", "jobs", "plans"):
    found[f"list {place}"] = failure(os.listdir, f"{DATA}/{place}")
    found[f"plant in {place}"] = failure(write, f"{DATA}/{place}/{MARK}")
for place in ("workspaces/other/plugins", "workspaces/other/engine", "workspaces/other/tree",
              "facts/other", "jobs/job_other/1"):
    found[f"plant in {place}"] = failure(write, f"{DATA}/{place}/{MARK}")
found["read the role"] = failure(os.listdir, sys.argv[2])
found["plant in the role"] = failure(write, f"{sys.argv[2]}/tasks/{MARK}")
found["change the role"] = failure(write, f"{sys.argv[2]}/tasks/main.yml")
found["open the role"] = failure(os.chmod, sys.argv[2], 0o777)
for name in ("copied.json", "more"):
    found[f"plant {name} beside the tree"] = failure(write, f"{DATA}/workspaces/edge/{name}")
found["database"] = failure(open, DATA + "/exocomp.db")
if os.path.exists(OWN + "/" + MARK):
    os.unlink(OWN + "/" + MARK)
double_fork()
with open(OWN + "/found.json", "w") as file:
    json.dump(found, file)
"""


@pytest.fixture
def home() -> Iterator[Home]:
    """Its data dir lies outside of /tmp, which every job has as its own: there each wall has its own errno."""
    home = Home()
    home.data = Path(tempfile.mkdtemp(prefix="xo-", dir="/var/tmp"))
    for place in OTHERS:
        (home.data / place).mkdir(parents=True)
    yield home
    home.close()
    shutil.rmtree(home.data)


RECORDS = ("exit.json", ".exit.json.tmp", "shim.json", "log", "lock", "source.json", "outputs.json")
NOTES = ("state-before.json", "state-earlier.json", "hosts", "resolv.conf", "more")
HIDDEN = {"shim.json", "log", "lock"}  # what a job sees there is /dev/null


def of_records(*there: str) -> dict[str, str]:
    """How the attacks on the attempt's own files end; `there` are those that the job sees."""
    found = {}
    for name in (*RECORDS, *NOTES):
        found[f"write {name}"] = "EACCES" if name in HIDDEN else "EROFS"
        found[f"replace {name}"] = "EXDEV"
        found[f"link {name}"] = found[f"mkdir {name}"] = "EEXIST" if name in (*HIDDEN, *there) else "EROFS"
    return found


def of_places(*above: str) -> dict[str, str]:
    """How the attacks on the data dir end: `above` are the places that hold something of the job's own."""
    places = ("stage", "vendor", "workspaces", "facts", "keys", "inventories", "jobs", "plans")
    found = {f"{verb} {place}": "ENOENT" for place in places for verb in ("list", "plant in")}
    found |= {f"plant in {place}": "ENOENT" for place in OTHERS}
    for place in above:
        found[f"list {place}"], found[f"plant in {place}"] = "EACCES", "EROFS"
    return found


ON_PROJECT = ("write the project", "add to the project", "unlink the project", "open the project")
ON_ROLE = ("plant in the role", "change the role", "open the role")
BESIDE_THE_TREE = ("plant copied.json beside the tree", "plant more beside the tree")
ELSEWHERE = {
    "move home": "EROFS",
    "socket of the daemon": "ENOENT",
    "socket of another job": "ENOENT",
    "database": "ENOENT",
}


@pytest.fixture
def foreign(home: Home) -> Iterator[socket.socket]:
    """What could be another job's agent."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(home.data / "jobs" / "job_other" / "1" / "a"))
        server.listen()
        server.setblocking(False)
        yield server


def write(directory: Path, **files: str) -> Path:
    directory.mkdir()
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


def content(*trees: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for tree in trees for path in sorted(tree.rglob("*")) if path.is_file()}


def found_by(home: Home, step: str) -> dict[str, str]:
    """What came of each attack of a step's job."""
    job = next(each.step.job for each in home.view().steps if each.step.name == step)
    return dict(json.loads((home.data / "jobs" / str(job) / "1" / "home" / "found.json").read_text()))


def assert_nothing_came_of_it(home: Home, foreign: socket.socket) -> None:
    with pytest.raises(BlockingIOError):
        foreign.accept()
    assert faults(home.events()) == []
    assert [path for path in home.data.rglob("*") if "forged" in path.name] == []
    home.wait_until_quiet()


def test_a_module_that_means_harm_reaches_its_own_directories_and_nothing_else(
    home: Home, foreign: socket.socket
) -> None:
    text = HOST + LOCAL_EXEC.format(python=sys.executable, data=home.data)
    module = write(home.work / "module", main__tf=text, attack__py=ATTACK)
    before = content(module)
    home.serve()
    home.run("workspace", "add", "edge", str(module))
    home.run("workspace", "apply", "edge", "--wait")
    above = ("jobs", "workspaces")
    assert found_by(home, "apply") == {
        **of_records("source.json", "state-before.json", "resolv.conf"),
        **of_places(*above),
        **ELSEWHERE,
        # Its working copy is its own; what the user wrote is put back before each run.
        **dict.fromkeys(ON_PROJECT, "through"),
        **dict.fromkeys(("read the role", *ON_ROLE), "ENOENT"),
        **dict.fromkeys(BESIDE_THE_TREE, "EROFS"),
    }
    assert content(module) == before
    assert home.states() == {"apply": "succeeded"}
    assert_nothing_came_of_it(home, foreign)


def test_a_play_that_means_harm_reaches_its_own_directories_and_nothing_else(
    home: Home, foreign: socket.socket
) -> None:
    role = vendored_content.repository(vendored_content.role(home.work))
    (home.work / "requirements.yml").write_text("roles: [{src: ./greeter, scm: git}]\n")
    project = write(home.work / "play", site__yml="", attack__py=ATTACK)
    home.serve()
    home.run("workspace", "add", "edge", str(write(home.work / "module", main__tf=HOST)))
    home.run("playbook", "vendor", "--requirements", str(home.work / "requirements.yml"))
    (shelf,) = (path for path in (home.data / "vendor").rglob(role.name) if path.is_dir())
    before = content(home.data / "vendor")
    (project / "site.yml").write_text(PLAY.replace("DATA", str(home.data)).replace("ROLE", str(shelf)))
    home.run("provision", "run", "edge", str(project / "site.yml"), "--wait")
    above = ("jobs", "stage", "vendor", "facts")
    assert found_by(home, "configure") == {
        **of_records("source.json", "hosts"),
        **of_places(*above),
        **ELSEWHERE,
        **dict.fromkeys(ON_PROJECT, "EROFS"),
        "read the role": "through",
        **dict.fromkeys(ON_ROLE, "EROFS"),
        **dict.fromkeys(BESIDE_THE_TREE, "ENOENT"),
    }
    assert content(home.data / "vendor") == before
    staged = content(home.data / "stage")
    assert sorted(staged.values()) == sorted(content(project).values())
    assert_nothing_came_of_it(home, foreign)


SHOWS = (("provision", "status"), ("provision", "logs"), ("job", "show", "latest"), ("host", "list"), ("events",))


def test_a_play_that_forges_its_record_has_still_failed_and_names_no_host_of_its_own(home: Home) -> None:
    project = write(home.work / "play", site__yml=FORGING_PLAY, forge__py=FORGE)
    home.serve()
    home.run("workspace", "add", "edge", str(write(home.work / "module", main__tf=HOST)))
    told = home.run("provision", "run", "edge", str(project / "site.yml"), "--wait", exit=1)
    assert home.states()["configure"] == "failed"
    assert [each["host"]["name"] for each in home.json("host", "list")["hosts"]] == ["here"]
    assert [each["converged_at"] for each in home.json("host", "list")["hosts"]] == [None]
    said = [told.stdout, *(home.run(*words).stdout for words in SHOWS)]
    assert "elsewhere" in said[0]  # it was told, as the job's word
    for text in said:
        assert all(char.isprintable() or char == "\n" for char in text), repr(text)
        assert "succeeded" not in [line.strip() for line in text.splitlines()]
    assert faults(home.events()) == []


@pytest.mark.parametrize("name", ["a\\nhost", "a\\u001b[2J", "a\\u202eb", "../up", "-oProxyCommand=x"])
def test_a_host_name_that_could_steer_a_terminal_or_a_tool_makes_no_inventory(home: Home, name: str) -> None:
    home.serve()
    home.run("workspace", "add", "edge", str(write(home.work / "module", main__tf=HOST.replace("here", f'"{name}"'))))
    done = home.run("workspace", "apply", "edge", "--wait", exit=1)
    assert "its outputs make no inventory" in done.stdout
    assert all(char.isprintable() or char == "\n" for char in done.stdout), repr(done.stdout)
    assert home.json("host", "list")["hosts"] == []


def test_a_module_that_leaves_a_directory_where_its_plan_was_stops_nobody_else(home: Home) -> None:
    command = "rm $HOME/plan; mkdir $HOME/plan"
    harm = f'resource "terraform_data" "x" {{\n  provisioner "local-exec" {{ command = "{command}" }}\n}}\n'
    home.serve()
    home.run("workspace", "add", "edge", str(write(home.work / "edge", main__tf=HOST + harm)))
    home.run("workspace", "apply", "edge", "--wait")
    home.stop()
    assert "died" not in home.daemon_log()
    assert list(home.data.glob("jobs/*/1/home/plan")) == []
