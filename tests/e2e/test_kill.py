"""kill -9 of the daemon in each step, and everything else that may end without a word."""

from __future__ import annotations

import signal
import time

import pytest

from exocomp.protocol.events import AttemptAdopted, AttemptLost, StepMoved
from tests.lab.estate import Estate
from tests.lab.history import faults, successes
from tests.lab.processes import kill

pytestmark = pytest.mark.lab
STEPS = ("apply", "wait", "pin", "onboard", "configure")


def started(estate: Estate, play: str, *flags: str) -> None:
    estate.order("web1")
    estate.home.serve()
    estate.register()
    estate.home.run(*estate.chain(play, *flags))


def assert_sound(estate: Estate, *, applies: int = 1) -> None:
    """The chain got to its end, each step succeeded exactly once, and nobody lives on."""
    view = estate.home.wait_for_end()
    assert view.workflow.state == "succeeded", estate.home.told()
    events = estate.home.events()
    assert faults(events) == []
    assert {step: successes(events, step) for step in STEPS} == dict.fromkeys(STEPS, 1)
    assert estate.cloud.made("web1") == applies
    estate.home.wait_until_quiet()


def kill_its_processes(estate: Estate) -> None:
    left = estate.home.processes()
    assert left
    kill(left)


def attempts(estate: Estate, step: str) -> int:
    return sum(event.step == step and event.new == "running" for event in estate.home.of(StepMoved))


def until(estate: Estate, file: str) -> None:
    """Wait for a play's mark on the machine."""
    deadline = time.monotonic() + 60
    while not estate.marks("web1", file):
        assert time.monotonic() < deadline, estate.home.told()
        time.sleep(0.05)


def until_the_cloud_is_asked(estate: Estate) -> None:
    deadline = time.monotonic() + 60
    while not estate.cloud.made("web1"):
        assert time.monotonic() < deadline, estate.home.told()
        time.sleep(0.02)


def test_a_running_apply_is_adopted(estate: Estate) -> None:
    estate.cloud.tell("web1", slow_s=4.0)
    started(estate, "site.yml")
    until_the_cloud_is_asked(estate)
    estate.home.kill()
    estate.home.serve()
    assert_sound(estate)
    assert [event.step for event in estate.home.of(AttemptAdopted)] == ["apply"]
    assert attempts(estate, "apply") == 1


def test_an_apply_that_ends_while_no_daemon_is_up_counts(estate: Estate) -> None:
    estate.cloud.tell("web1", slow_s=1.5)
    started(estate, "site.yml")
    until_the_cloud_is_asked(estate)
    estate.home.kill()
    estate.cloud.machine("web1").wait_until_it_answers()
    estate.home.wait_until_quiet()
    assert estate.home.states()["apply"] == "running"
    estate.home.serve()
    assert_sound(estate)
    assert attempts(estate, "apply") == 1


def test_an_apply_whose_every_process_was_killed_is_planned_anew(estate: Estate) -> None:
    estate.cloud.tell("web1", slow_s=2.0)
    started(estate, "site.yml")
    until_the_cloud_is_asked(estate)
    estate.home.kill()
    kill_its_processes(estate)
    estate.home.serve()
    assert_sound(estate, applies=2)
    assert [event.step for event in estate.home.of(AttemptLost)] == ["apply"]
    assert attempts(estate, "apply") == 2


def test_a_wait_that_was_interrupted_waits_again(estate: Estate) -> None:
    estate.cloud.tell("web1", late_s=5.0)
    started(estate, "site.yml")
    estate.home.wait_for_step("wait", "running")
    estate.home.kill()
    estate.home.serve()
    assert_sound(estate)
    assert [event.step for event in estate.home.of(AttemptLost)] == ["wait"]
    assert attempts(estate, "apply") == 1


def test_a_scan_that_was_interrupted_scans_again(estate: Estate) -> None:
    estate.order("web1")
    estate.home.serve(crash_at="release.pin:after")
    estate.register()
    estate.home.run(*estate.chain("site.yml"))
    assert estate.home.wait_for_death() == -signal.SIGKILL
    estate.home.serve()
    assert_sound(estate)
    assert [event.step for event in estate.home.of(AttemptLost)] == ["pin"]
    assert attempts(estate, "wait") == 1


def test_a_running_onboarding_is_adopted(estate: Estate) -> None:
    started(estate, "site.yml", "--onboard-playbook", estate.play("slow_onboarding.yml"))
    until(estate, "/var/lib/onboardings")
    estate.home.kill()
    estate.home.serve()
    assert_sound(estate)
    assert [event.step for event in estate.home.of(AttemptAdopted)] == ["onboard"]
    assert estate.marks("web1", "/var/lib/onboardings") == 1


def test_a_running_play_is_adopted(estate: Estate) -> None:
    started(estate, "marks.yml", "--extra-vars", '{"pause_s": 4}')
    until(estate, "/var/lib/marks")
    estate.home.kill()
    estate.home.serve()
    assert_sound(estate)
    assert [event.step for event in estate.home.of(AttemptAdopted)] == ["configure"]
    assert (estate.marks("web1", "/var/lib/marks"), estate.marks("web1", "/var/lib/ends")) == (1, 1)


def test_a_play_that_ends_while_no_daemon_is_up_counts(estate: Estate) -> None:
    started(estate, "marks.yml", "--extra-vars", '{"pause_s": 1}')
    until(estate, "/var/lib/marks")
    estate.home.kill()
    until(estate, "/var/lib/ends")
    estate.home.wait_until_quiet()
    estate.home.serve()
    assert_sound(estate)
    assert (estate.marks("web1", "/var/lib/marks"), estate.marks("web1", "/var/lib/ends")) == (1, 1)


def test_a_play_whose_every_process_was_killed_is_lost_and_runs_again(estate: Estate) -> None:
    started(estate, "marks.yml", "--extra-vars", '{"pause_s": 3}')
    until(estate, "/var/lib/marks")
    estate.home.kill()
    kill_its_processes(estate)
    estate.home.serve()
    assert_sound(estate)
    assert [event.step for event in estate.home.of(AttemptLost)] == ["configure"]
    assert (estate.marks("web1", "/var/lib/marks"), estate.marks("web1", "/var/lib/ends")) == (2, 1)


def test_sigterm_lets_the_play_live_and_the_next_daemon_takes_it_over(estate: Estate) -> None:
    started(estate, "marks.yml", "--extra-vars", '{"pause_s": 3}')
    until(estate, "/var/lib/marks")
    assert estate.home.stop() == 0
    assert estate.home.processes()
    estate.home.serve()
    assert_sound(estate)
    assert estate.marks("web1", "/var/lib/marks") == 1


def test_a_stop_that_finishes_waits_for_the_running_job_and_starts_no_other(
    estate: Estate, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = estate.home.env
    monkeypatch.setattr(estate.home, "env", lambda **more: env(EXOCOMP_ON_STOP="finish", **more))
    estate.cloud.tell("web1", slow_s=2.0)
    started(estate, "marks.yml")
    until_the_cloud_is_asked(estate)
    assert estate.home.stop() == 0
    assert estate.home.processes() == []
    assert (estate.home.states()["apply"], estate.home.states()["wait"]) == ("succeeded", "ready")
    estate.home.serve()
    assert_sound(estate)


def test_a_waiting_client_sees_the_end_through_a_restart_of_the_daemon(estate: Estate) -> None:
    estate.order("web1")
    estate.home.serve()
    estate.register()
    client = estate.home.spawn(*estate.chain("marks.yml", "--extra-vars", '{"pause_s": 2}', "--wait"))
    estate.home.wait_for_step("configure", "running")
    estate.home.kill()
    estate.home.serve()
    out, err = client.communicate(timeout=120)
    assert client.returncode == 0, f"{out}\n{err}\n{estate.home.told()}"
    assert "configure" in out
    assert_sound(estate)


def test_ctrl_c_detaches_and_the_chain_goes_on(estate: Estate) -> None:
    estate.order("web1")
    estate.home.serve()
    estate.register()
    client = estate.home.spawn(*estate.chain("marks.yml", "--extra-vars", '{"pause_s": 2}', "--wait"))
    estate.home.wait_for_step("configure", "running")
    client.send_signal(signal.SIGINT)
    out, err = client.communicate(timeout=30)
    assert client.returncode == 130, f"{out}\n{err}"
    assert "provision watch" in err
    assert "provision cancel" in err
    assert_sound(estate)


def test_cancel_takes_the_play_and_all_its_processes_down(estate: Estate) -> None:
    started(estate, "marks.yml", "--extra-vars", '{"pause_s": 60}')
    until(estate, "/var/lib/marks")
    estate.home.run("provision", "cancel", "latest")
    view = estate.home.wait_for_end()
    assert view.workflow.state == "cancelled"
    assert estate.home.states()["configure"] == "cancelled"
    estate.home.wait_until_quiet()
    assert estate.marks("web1", "/var/lib/ends") == 0
    assert faults(estate.home.events()) == []
