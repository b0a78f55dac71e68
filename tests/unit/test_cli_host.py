# ruff: noqa: F811
from __future__ import annotations

import json
import subprocess
from pathlib import Path

import cli_views as v
import pytest
from cli_runs import PLAY, Ledger, Run, home, ledger, run  # noqa: F401

from exocomp.cli import output
from exocomp.protocol import commands as c
from exocomp.protocol import queries as q

OLD = c.ScannedKey(key_type="ssh-ed25519", key="AAAAold", fingerprint="SHA256:old")
NEW = c.ScannedKey(key_type="ssh-ed25519", key="AAAAnew", fingerprint="SHA256:new")


def scanned(verdict: str, recorded: tuple[c.ScannedKey, ...], offered: tuple[c.ScannedKey, ...]) -> c.Scanned:
    return c.Scanned(
        name="[203.0.113.5]:2222",
        address="203.0.113.5",
        port=2222,
        verdict=verdict,
        offered=offered,
        recorded=recorded,
    )


@pytest.fixture
def fleet(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    ledger.replies[c.ShowFleetKey] = c.FleetKeyShown(public_key="ssh-ed25519 AAAA exocomp's fleet")
    monkeypatch.setattr("exocomp.runbooks.path", lambda name: Path("/share") / name)
    return ledger


def test_onboard_pins_what_it_showed_and_prints_the_json_command(run: Run, fleet: Ledger) -> None:
    fleet.replies[c.ScanHost] = scanned("new", (), (NEW,))
    code, out, err = run("host", "onboard", "web1", "--user", "debian")
    assert code == 0
    assert "SHA256:new" in err
    assert c.PinHost(name="[203.0.113.5]:2222", keys=(NEW,)) in fleet.said
    words = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {out.strip()}"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert words[:6] == ["ansible-playbook", "-i", "203.0.113.5,", "-u", "debian", "--extra-vars"]
    assert json.loads(words[6]) == {"exocomp_fleet_pubkey": "ssh-ed25519 AAAA exocomp's fleet", "ansible_port": 2222}
    assert words[7] == "/share/onboard.yml"


def test_a_changed_key_is_exit_6_with_both_fingerprints_and_pins_nothing(run: Run, fleet: Ledger) -> None:
    fleet.replies[c.ScanHost] = scanned("changed", (OLD,), (NEW,))
    code, out, err = run("host", "onboard", "web1")
    assert (code, out) == (6, "")
    assert "SHA256:old" in err
    assert "SHA256:new" in err
    assert "--rotate" in err
    assert fleet.said == [c.ScanHost(host="web1")]


def test_rotate_asks_and_where_nobody_can_answer_needs_yes(
    run: Run, fleet: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.replies[c.ScanHost] = scanned("changed", (OLD,), (NEW,))
    rotation = c.PinHost(name="[203.0.113.5]:2222", keys=(NEW,), rotate=True)
    assert run("host", "onboard", "web1", "--rotate")[0] == 2
    monkeypatch.setattr(output, "confirm", lambda question, *, yes: yes)
    assert run("host", "onboard", "web1", "--rotate")[0] == 1
    assert rotation not in fleet.said
    assert run("host", "onboard", "web1", "--rotate", "--yes")[0] == 0
    assert rotation in fleet.said


def test_a_known_host_is_not_pinned_again(run: Run, fleet: Ledger) -> None:
    fleet.replies[c.ScanHost] = scanned("known", (NEW,), (NEW,))
    code, out, _ = run("host", "onboard", "web1", "--json", "--rotate")
    assert (code, json.loads(out)["pinned"]) == (0, False)
    assert not any(isinstance(said, c.PinHost) for said in fleet.said)


def test_the_export_is_a_known_hosts_file(run: Run, ledger: Ledger) -> None:
    ledger.answers[q.ListPins] = q.Pins(pins=(v.PIN,))
    assert run("host", "known-hosts", "export")[1] == f"[203.0.113.5]:2222 ssh-ed25519 {v.PIN.key}\n"
    assert run("host", "known-hosts", "export", "--hashed")[1].startswith("|1|")


def test_forget_names_every_recorded_name_once(run: Run, ledger: Ledger) -> None:
    ledger.answers[q.ListPins] = q.Pins(pins=(v.PIN, v.PIN))
    assert run("host", "known-hosts", "forget", "web1")[0] == 2
    assert run("host", "known-hosts", "forget", "web1", "--yes")[0] == 0
    assert ledger.said == [c.ForgetHost(name="[203.0.113.5]:2222")]
