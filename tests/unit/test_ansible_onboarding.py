"""The seeded onboarding runbook refuses a bad key before it touches a host; its work is shown end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from exocomp import runbooks
from tests.ansible_runs import PUBLIC, Bench, inventory_of

# Nothing answers there, so that no task can run anywhere but on the controller.
NOWHERE = inventory_of({"a": {"ansible_host": "127.0.0.1", "ansible_port": 9, "ansible_connection": "ssh"}})
BLOB = PUBLIC.split()[1]


@pytest.mark.parametrize(
    ("key", "user", "task"),
    [
        (PUBLIC, "exocomp", "Wait for the first boot to end"),
        (f"ssh-ed25519\t{BLOB}", "exocomp", "Wait for the first boot to end"),
        (f'ssh-ed25519 {BLOB} {{{{ 7 * 7 }}}} o\'brien "x" \\ 鍵', "exocomp", "Wait for the first boot to end"),
        (f"{PUBLIC}\nssh-ed25519 {BLOB} second", "exocomp", "Check the fleet key"),
        (f'command="id" {PUBLIC}', "exocomp", "Check the fleet key"),
        (f"ssh-dss {BLOB}", "exocomp", "Check the fleet key"),
        (f"ssh-ed25519 {BLOB};id", "exocomp", "Check the fleet key"),
        ("", "exocomp", "Check the fleet key"),
        (PUBLIC, "x;id", "Check the fleet key"),
    ],
)
def test_a_bad_key_or_user_is_refused_before_anything_is_changed(
    tmp_path: Path, key: str, user: str, task: str
) -> None:
    bench = Bench(tmp_path)
    playbook = runbooks.path("onboard.yml").read_text("utf-8")
    verdict, _ = bench.play(
        playbook, NOWHERE, onboarding=True, fleet_public=key, extra_vars={"exocomp_fleet_user": user}
    )
    assert f"at task {task!r}" in verdict.reason
