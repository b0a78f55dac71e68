"""What a jail shows and hides: the attempt's records, its own places, and jails that cannot be built as asked for."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from exocomp.sandbox import records
from exocomp.sandbox.layers import NOT_APPLIED
from tests.attempts import sh
from tests.sandbox.people import TIERS, Person, jailed

FORGE = r"""
cd {attempt}
for name in lock log shim.json exit.json .exit.json.tmp; do
  cat $name 2>/dev/null && echo read $name
  echo forged 2>/dev/null > $name && echo wrote $name
  rm -f $name 2>/dev/null && echo removed $name
  mv $name other 2>/dev/null && echo moved $name
  ln -sf {attempt}/home/target $name 2>/dev/null && echo linked $name
  mkdir -p $name 2>/dev/null && echo made $name
done
echo {{}} > home/exit.json; mv -T home/exit.json exit.json 2>/dev/null && echo replaced
ln -s {attempt}/home/target outputs.json; echo planted
exit 5
"""


def test_a_job_that_owns_the_attempts_directory_can_still_not_forge_its_records(person: Person) -> None:
    with person.shim() as shim:
        script = FORGE.format(attempt=shim.directory)
        jailed(
            person, shim, sh(script, ok=(5,)), sh("echo real", stdout="outputs.json"), write=(str(shim.directory),)
        )
        ended = shim.end()
        assert (ended.code, ended.command, ended.cancelled) == (0, "job", False)
        assert shim.log == b"planted\n"
        assert json.loads((shim.directory / records.SHIM).read_text())["pid"]
        assert (shim.directory / "outputs.json").read_text() == "real\n"
        assert not (shim.directory / "home" / "target").exists()


def test_a_job_that_reads_the_attempts_directory_sees_no_records(person: Person) -> None:
    with person.shim() as shim:
        person.write(shim.directory / "ssh_config", "mine\n")
        script = f"cd {shim.directory}; for f in *; do test -f $f && cat $f; done; exec 9<lock"
        read = (*person.jail(shim.directory).read, str(shim.directory))
        jailed(person, shim, sh(script), read=read, write=())
        assert shim.end().code != 0
        assert b"mine\n" in shim.log
        assert b"starttime" not in shim.log
        assert b"lock: Permission denied" in shim.log


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"write": ("/nonexistent",)}, b"/nonexistent is not there"),
        ({"files": (("/nonexistent", "/etc/hosts"),)}, b"/nonexistent is not there"),
        ({"read": ("etc",)}, b"'etc' is not a plain absolute path"),
        ({"read": ("/etc/../root",)}, b"is not a plain absolute path"),
    ],
)
def test_a_jail_that_cannot_be_built_as_it_is_asked_for_runs_nothing(
    person: Person, tier: str, wrong: dict[str, Any], why: bytes
) -> None:
    with person.shim() as shim:
        jailed(person, shim, sh("echo ran", name="plan"), tier=tier, **wrong)
        ended = shim.end()
        assert (ended.code, ended.command) == (NOT_APPLIED, "plan")
        assert re.fullmatch(rb"exocomp: nothing was run: .*%s.*\n" % re.escape(why), shim.log)


def test_an_unknown_tier_runs_nothing(person: Person) -> None:
    with person.shim() as shim:
        jailed(person, shim, sh("touch marker"), tier="relaxed")
        assert shim.end().code == NOT_APPLIED
        assert shim.log == b"exocomp: nothing was run: there is no tier 'relaxed', only enforcing, degraded, off\n"


def test_a_link_that_an_earlier_command_planted_opens_nothing_to_the_next(person: Person) -> None:
    with person.shim() as shim:
        secret = person.mkdir(shim.directory.name, "secret")
        person.write(secret / "known_hosts", "stolen\n")
        home = shim.directory / "home"
        person.mkdir(shim.directory.name, "home", "ssh")
        person.write(home / "ssh" / "known_hosts", "fine\n")
        hosts = str(home / "ssh" / "known_hosts")
        commands = (sh(f"mv ssh aside; ln -s {secret} ssh"), sh(f"cat {hosts}", name="second"))
        jailed(person, shim, *commands, read=(*person.jail(home).read, hosts))
        ended = shim.end()
        assert (ended.code, ended.command) == (NOT_APPLIED, "second")
        why = f"{hosts} leads through a link below {home}, where the job may write"
        assert shim.log == f"exocomp: nothing was run: {why}\n".encode()


def test_files_appear_at_their_places_and_tmp_is_the_jobs_own(person: Person) -> None:
    with person.shim() as shim, tempfile.NamedTemporaryFile(dir="/tmp") as outside:
        hosts = person.write(shim.directory / "hosts", "10.0.0.7 machine\n")
        script = "cat /etc/hosts; echo mine > /tmp/x && ls /tmp; ls /tmp/.. >/dev/null 2>&1 || echo no; readlink /bin"
        home = shim.directory / "home"
        jailed(person, shim, sh(script), files=((str(hosts), "/etc/hosts"),), write=(str(home), "/tmp"))
        assert shim.end().code == 0
        lines = shim.log.decode().splitlines()
        assert lines[0] == "10.0.0.7 machine"
        # Beside its own file only what its jail or its launcher lies in, when that is below /tmp.
        listed = lines[1 : lines.index("no")]
        assert {"x", person.base.name} <= set(listed)
        assert Path(outside.name).name not in listed
        assert os.path.islink("/bin") == (lines[-1] == "usr/bin")
        assert not Path("/tmp/x").exists()


def test_without_namespaces_the_machines_own_tmp_stays_closed(person: Person) -> None:
    with person.shim() as shim:
        home = shim.directory / "home"
        jailed(person, shim, sh("ls /tmp"), tier="degraded", write=(str(home), "/tmp"))
        assert shim.end().code == 2
        assert b"Permission denied" in shim.log
