"""Approvals with a real daemon and a real engine: over kill -9, applied exactly as shown, or not at all."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exocomp.approval import Approval, ApprovalState
from exocomp.protocol.approving import ApprovalAsked, Approvals, ListApprovals
from exocomp.protocol.events import WorkflowEnded
from exocomp.store import answer
from tests.crash.test_points import PLAY, marks, register
from tests.lab.history import faults
from tests.lab.home import Home

MODULE = """
variable "name" {
  default = "one"
}
variable "secret" {
  default   = "hunter2-in-the-plan"
  sensitive = true
}
resource "terraform_data" "machine" {
  triggers_replace = var.name
  input            = var.secret
  provisioner "local-exec" {
    command = "echo ${var.name} >>applies"
  }
}
output "ansible_inventory" {
  value      = { all = { hosts = { here = { ansible_connection = "local" } } } }
  depends_on = [terraform_data.machine]
}
"""


@pytest.fixture
def home() -> Iterator[Home]:
    home = Home()
    for name in ("module", "plays"):  # each a project of its own
        (home.work / name).mkdir()
    (home.work / "module" / "main.tf").write_text(MODULE)
    (home.work / "plays" / "play.yml").write_text(PLAY)
    yield home
    home.close()


def ask(home: Home) -> Approval:
    """Order the chain with a gate, and wait for its question."""
    home.run("provision", "run", "edge", str(home.work / "plays" / "play.yml"), "--require-approval")
    return asked(home)


def asked(home: Home, workflow: str | None = None) -> Approval:
    home.wait_for(lambda event: isinstance(event, ApprovalAsked), "a question")
    found = answer.ask(home.data, ListApprovals(workflow=workflow))
    assert isinstance(found, Approvals)
    return found.approvals[0]


def decide(home: Home, approval: Approval, *flags: str, exit: int | None = 0) -> str:
    done = home.run("approval", "decide", approval.id, *(flags or ("--approve",)), exit=exit)
    return done.stdout + done.stderr


def ended(home: Home, workflow: str) -> str:
    home.wait_for(lambda event: isinstance(event, WorkflowEnded) and event.workflow == workflow, "its end", 120)
    return home.view(workflow).workflow.state.value


def applied(home: Home) -> list[str]:
    file = home.data / "workspaces/edge/tree/applies"
    return file.read_text().split() if file.exists() else []


def planted(home: Home, text: str) -> list[Path]:
    """Files of the data dir that hold a text."""
    return [path for path in home.data.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_it_waits_over_a_kill_and_is_refused_while_no_daemon_is_up_and_applies_what_was_shown(home: Home) -> None:
    home.serve()
    register(home)
    approval = ask(home)
    assert applied(home) == []
    assert [(change.name, change.action) for change in approval.proposal.changes] == [
        ("terraform_data.machine", "create")
    ]
    assert approval.proposal.joins == ("here",)
    assert approval.requester
    home.kill()
    assert home.states()["apply"] == "waiting"
    assert "no daemon answers" in decide(home, approval, exit=3)
    assert approval.id in home.run("approval", "list").stdout
    # What the module says by now is not what was shown.
    (home.work / "module" / "main.tf").write_text(MODULE.replace('"one"', '"two"'))
    home.serve()
    assert home.states()["apply"] == "waiting"
    decide(home, approval)
    assert ended(home, approval.workflow) == "succeeded", home.told()
    assert applied(home) == ["one"]
    assert marks(home)["plays"] == 1
    assert faults(home.events()) == []
    assert list((home.data / "plans").iterdir()) == []
    assert "approved" in decide(home, approval, "--reject", exit=6)


def test_between_plan_and_apply_no_secret_of_it_lies_in_plaintext(home: Home) -> None:
    (home.work / "module" / "terraform.tfvars").write_text('secret = "hunter3-of-the-operator"\n')
    home.serve()
    register(home)
    approval = ask(home)
    sealed = Path(approval.proposal.plan.path)
    assert sealed.is_file()
    # The operator's own module and its staged copy hold it, and what exocomp made of it does not.
    found = planted(home, "hunter3-of-the-operator") + planted(home, "hunter2-in-the-plan")
    assert {path.suffix for path in found} <= {".tf", ".tfvars"}, found
    decide(home, approval, "--reject", "--reason", "no")
    assert not sealed.exists()


@pytest.mark.parametrize("harm", ["flip", "lose", "swap"])
def test_a_plan_that_is_not_the_sealed_one_is_not_applied(home: Home, harm: str) -> None:
    home.serve()
    register(home)
    approval = ask(home)
    path = Path(approval.proposal.plan.path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if harm == "flip":
        path.write_bytes(content)
    elif harm == "lose":
        path.unlink()
    else:
        path.write_bytes(b"a plan of somebody's")
    decide(home, approval)
    assert ended(home, approval.workflow) == "failed"
    assert applied(home) == []
    assert marks(home)["plays"] == 0


def test_a_plan_made_stale_by_another_apply_is_void(home: Home) -> None:
    home.serve()
    register(home)
    approval = ask(home)
    home.run("workspace", "apply", "edge", "--wait")
    assert "changed the state of workspace edge" in decide(home, approval, exit=6)
    assert ended(home, approval.workflow) == "cancelled"
    assert applied(home) == ["one"]
    assert marks(home)["plays"] == 0


@pytest.mark.parametrize("when", ["before the decision", "after it"])
def test_a_changed_project_is_not_what_was_approved(home: Home, when: str) -> None:
    home.serve()
    register(home)
    approval = ask(home)
    if when == "before the decision":
        (home.work / "plays" / "play.yml").write_text(PLAY + "    - ansible.builtin.shell: echo more >>~/plays\n")
        assert "changed since it was asked" in decide(home, approval, exit=6)
        assert ended(home, approval.workflow) == "cancelled"
        assert applied(home) == []
    else:
        home.kill()
        home.serve(crash_at="settle.apply.succeeded:after")
        decide(home, approval)
        home.wait_for_death()
        (home.work / "plays" / "play.yml").write_text(PLAY + "    - ansible.builtin.shell: echo more >>~/plays\n")
        home.serve()
        assert ended(home, approval.workflow) == "failed"
        assert "is not what was approved" in home.view(approval.workflow).workflow.reason
    assert marks(home)["plays"] == 0


def test_an_apply_that_replaces_asks_by_itself_and_one_that_was_allowed_does_not(home: Home) -> None:
    home.serve()
    register(home)
    home.run("workspace", "apply", "edge", "--wait")
    (home.work / "module" / "main.tf").write_text(MODULE.replace('"one"', '"two"'))
    shown = home.run("workspace", "apply", "edge", "--wait", "--no-block", exit=4)
    assert "-/+ terraform_data.machine  replace" in shown.stdout
    assert applied(home) == ["one"]
    approval = asked(home)
    decide(home, approval, "--reject", "--reason", "not today")
    assert "not today" in home.run("provision", "status", approval.workflow).stdout
    home.run("workspace", "apply", "edge", "--wait", "--allow-destroy")
    assert applied(home) == ["one", "two"]


POINTS = [
    f"{name}:{side}"
    for name in ("ask.apply", "decide.approved", "release.apply", "settle.apply.succeeded")
    for side in ("before", "after")
]


@pytest.mark.parametrize("point", [*POINTS, "prepared.apply", "exited.apply"])
def test_killed_at(home: Home, point: str) -> None:
    home.serve()
    register(home)
    if not point.startswith("ask"):
        approval = ask(home)
    home.kill()
    home.serve(crash_at=point, expect_death=True)
    if point.startswith("ask"):
        home.run("provision", "run", "edge", str(home.work / "plays" / "play.yml"), "--require-approval", exit=None)
    else:
        decide(home, approval, exit=None)
    assert home.wait_for_death() == -signal.SIGKILL
    home.serve()
    approval = asked(home)
    if approval.state is ApprovalState.OPEN:
        decide(home, approval)
    assert ended(home, approval.workflow) == "succeeded", home.told()
    assert applied(home) == ["one"]
    assert marks(home)["plays"] == 1
    assert faults(home.events()) == [], home.told()
    assert len(home.of(ApprovalAsked)) == 1
    assert list((home.data / "plans").iterdir()) == []
    home.wait_until_quiet()


@pytest.mark.parametrize("point", ["decide.rejected:before", "decide.rejected:after"])
def test_killed_while_rejecting(home: Home, point: str) -> None:
    home.serve()
    register(home)
    approval = ask(home)
    home.kill()
    home.serve(crash_at=point)
    decide(home, approval, "--reject", exit=None)
    assert home.wait_for_death() == -signal.SIGKILL
    home.serve()
    if point.endswith("before"):
        decide(home, approval, "--reject")
    assert ended(home, approval.workflow) == "cancelled"
    assert applied(home) == []
    home.kill()
    home.serve()  # whose sweep drops what the killed one left
    assert list((home.data / "plans").iterdir()) == []


@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_at_the_first_start_the_key_is_kept(home: Home, side: str) -> None:
    home.serve(crash_at=f"record_master_key:{side}", expect_death=True)
    assert home.wait_for_death() == -signal.SIGKILL
    key = (home.data / "master.key").read_bytes()
    home.serve()
    assert (home.data / "master.key").read_bytes() == key


@pytest.mark.parametrize(
    "harm",
    [Path.unlink, lambda key: key.write_text("ab" * 32), lambda key: key.chmod(0o644)],
    ids=["lost", "swapped", "open to others"],
)
def test_without_its_master_key_the_daemon_refuses_to_start_and_destroys_nothing(
    home: Home, harm: Callable[[Path], object]
) -> None:
    home.serve()
    shown = home.json("fleet-key", "show")
    home.stop()
    key = home.data / "master.key"
    held, sealed = key.read_bytes(), (home.data / "keys" / "fleet_ed25519").read_bytes()
    harm(key)
    home.serve(expect_death=True)
    assert home.wait_for_death() == 1
    assert (home.data / "keys" / "fleet_ed25519").read_bytes() == sealed
    key.write_bytes(held)
    key.chmod(0o600)
    home.serve()
    assert home.json("fleet-key", "show") == shown
    assert "Traceback" not in home.daemon_log()
