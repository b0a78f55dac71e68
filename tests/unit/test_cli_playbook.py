# ruff: noqa: F811
"""`exocomp playbook vendor` as it is typed and printed."""

from __future__ import annotations

import json
from pathlib import Path

from cli_runs import Ledger, Run, home, ledger, run  # noqa: F401

from exocomp.protocol.commands import VendorContent, Vendored, VendoredEntry

ENTRY = VendoredEntry(
    kind="collection",
    name="ansible.posix",
    version="1.6.2",
    source="https://galaxy.example/",
    digest="0123456789abcdef",
)


def test_what_came_in_is_a_table_and_where_it_lies_a_note(run: Run, ledger: Ledger, home: Path) -> None:
    (home / "requirements.yml").write_text("[]")
    ledger.replies[VendorContent] = Vendored(entries=(ENTRY,), directory="/d/vendor/vnd_1")
    code, out, err = run("playbook", "vendor", "--requirements", "requirements.yml")
    assert ledger.said == [VendorContent(requirements=str(home / "requirements.yml"))]
    head, row = out.splitlines()
    assert head.split() == ["KIND", "NAME", "VERSION", "SOURCE", "DIGEST"]
    assert row.split() == ["collection", "ansible.posix", "1.6.2", "https://galaxy.example/", "0123456789ab"]
    assert (code, err) == (0, "vendored in /d/vendor/vnd_1\n")


def test_as_json_it_is_one_document(run: Run, ledger: Ledger) -> None:
    ledger.replies[VendorContent] = Vendored(entries=(ENTRY,), directory="/d/vendor/vnd_1")
    code, out, err = run("playbook", "vendor", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["entries"][0]["digest"] == ENTRY.digest


def test_without_a_file_nothing_is_needed_and_that_is_success(run: Run, ledger: Ledger) -> None:
    ledger.replies[VendorContent] = Vendored(entries=(), directory="")
    code, out, err = run("playbook", "vendor")
    assert ledger.said == [VendorContent(requirements=None)]
    assert (code, out) == (0, "")
    assert "nothing is needed" in err


def test_a_file_that_is_not_there_is_wrong_usage_before_any_daemon_is_asked(run: Run, ledger: Ledger) -> None:
    code, _, err = run("playbook", "vendor", "--requirements", "nothing.yml")
    assert (code, ledger.said) == (2, [])
    assert "--requirements 'nothing.yml'" in err


def test_an_emptied_file_says_that_nothing_is_vendored_any_more(run: Run, ledger: Ledger, home: Path) -> None:
    (home / "requirements.yml").write_text("[]")
    ledger.replies[VendorContent] = Vendored(entries=(), directory="/d/vendor/vnd_1")
    assert "nothing is vendored any more" in run("playbook", "vendor", "--requirements", "requirements.yml")[2]
