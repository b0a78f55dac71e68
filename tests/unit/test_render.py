from __future__ import annotations

import re
from datetime import UTC

import cli_views as v
import pytest
from msgspec.structs import replace

from exocomp.cli import lines, views
from exocomp.cli.board import Board
from exocomp.cli.render import cells, clean, duration, facts, fit, moment, table
from exocomp.model import Outcome, RunState, StepState, Tier, Trust
from exocomp.protocol import approving as a
from exocomp.protocol import events as e
from exocomp.protocol import fired as f
from exocomp.protocol.jobs import Progress
from exocomp.protocol.queries import HostResult

ESCAPE = re.compile("\x1b\\[[0-9]+m")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (-3, "0.0s"),
        (3.21, "3.2s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (133, "2m13s"),
        (3599.7, "1h00m"),
        (5400, "1h30m"),
        (86400 * 3 + 3600 * 4, "3d04h"),
    ],
)
def test_durations_read_as_flags_take_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_moment_carries_its_offset() -> None:
    assert moment(v.AT, UTC) == "2023-11-14 22:13:20+00:00"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("web1", "web1"),
        ("wéb·1", "wéb·1"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\nb\r", "a\\nb\\r"),
        ("a\u202eb\u2028", "a\\u202eb\\u2028"),
        ("\udce9", "\\udce9"),
    ],
)
def test_nothing_that_a_host_is_called_steers_the_terminal(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_text_is_cut_by_columns_not_by_characters() -> None:
    assert cells("日本") == 4
    assert fit("日本語", 5) == "日本…"
    assert fit("short", 5) == "short"


def test_a_table_fits_the_terminal_and_is_whole_elsewhere() -> None:
    rows = [("a" * 50, "running", "b" * 80)]
    assert max(map(cells, table(("ONE", "STATE", "TWO"), rows, width=60).splitlines())) <= 60
    assert "b" * 80 in table(("ONE", "STATE", "TWO"), rows)


def test_what_is_typed_again_is_never_cut() -> None:
    head = ("ID", "KIND", "STATE", "WORKSPACE", "STARTED", "TOOK")
    row = (v.WF, "provision", "succeeded", "edge" * 9, "2026-01-31 12:00:00+01:00", "3.2s")
    for width in (100, 80, 60, 40):
        title, line = table(head, [row], width=width).splitlines()
        assert line.split()[0] == v.WF
        assert max(cells(title), cells(line)) <= width
    assert table(head, [row], width=20) == f"ID\n{v.WF}"


def test_colour_only_paints() -> None:
    rows = [("x", "failed")]
    plain, painted = table(("ID", "STATE"), rows), table(("ID", "STATE"), rows, color=True)
    assert painted != plain
    assert ESCAPE.sub("", painted) == plain


def test_facts_leave_out_what_is_unknown() -> None:
    assert facts([("name", "edge"), ("engine", ""), ("dir", "/x")]) == "name  edge\ndir   /x"


def test_the_ledger_view_has_four_rows_and_pin_and_onboard_are_one() -> None:
    assert [s.name for s in views.stages(v.ENDED)] == ["apply", "wait", "onboard", "configure"]


@pytest.mark.parametrize(
    ("pin", "onboard", "shown"),
    [
        ("blocked", "blocked", "blocked"),
        ("running", "blocked", "running"),
        ("failed", "blocked", "failed"),
        ("succeeded", "blocked", "ready"),
        ("succeeded", "ready", "ready"),
        ("succeeded", "running", "running"),
        ("succeeded", "failed", "failed"),
        ("succeeded", "succeeded", "succeeded"),
        ("cancelled", "cancelled", "cancelled"),
    ],
)
def test_a_stage_is_as_far_as_its_first_unfinished_step(pin: str, onboard: str, shown: str) -> None:
    stage = views.stages(v.ledger("succeeded", "succeeded", pin, onboard, "blocked"))[2]
    assert stage.state == shown


def test_the_ledger_view_names_the_silent_host_and_what_to_do() -> None:
    silent = HostResult(host="web2", outcome="silent", detail="refused")
    view = v.ledger(
        "succeeded",
        "failed",
        "blocked",
        "blocked",
        "blocked",
        state=RunState.FAILED,
        reasons={"wait": "web2 did not answer within 15 s: refused"},
        hosts={"wait": (*[HostResult(host=f"ok{n}", outcome="answered") for n in range(30)], silent)},
    )
    text = views.ledger(view, now=v.AT + 200)
    assert "wait       failed" in text
    assert "web2  silent  refused" in text
    assert "and 11 more host(s)" in text
    assert "web2 did not answer within 15 s: refused" in text
    assert "hint: look again" in text
    assert re.search(r"configure +blocked", text)
    assert "1m30s" in text
    assert text.endswith(f"blocked\n\nonce mended: exocomp provision retry {v.WF}")


def test_the_ledger_view_of_a_failure_ends_with_what_to_type() -> None:
    states = ("succeeded", "succeeded", "succeeded", "succeeded", "failed")
    view = v.ledger(*states, state=RunState.FAILED, reasons={"configure": "host web1 failed"})
    *steps, last = view.steps
    view = replace(view, steps=(*steps, replace(last, tier=Tier.ENFORCING)))
    log, again = views.ledger(view, now=v.AT).splitlines()[-2:]
    assert log == f"its log: exocomp provision logs {v.WF} --step configure"
    assert again == f"once mended: exocomp provision retry {v.WF}"


EVENTS: list[tuple[e.AnyEvent, str]] = [
    (
        e.StepMoved(step="wait", stage="wait", old=StepState.READY, new=StepState.RUNNING, job="job_1"),
        "running job_1",
    ),
    (
        e.StepMoved(step="pin", stage="onboard", old=StepState.RUNNING, new=StepState.FAILED, reason="no", hint="do"),
        "failed no (do)",
    ),
    (e.WorkflowStarted(workflow="wf", workspace="edge", kind="handoff", steps=("a", "b")), "wf on edge: a → b"),
    (
        e.WorkflowStarted(workflow="wf", kind="play", steps=("play",), inventory="lab", origin="schedule:s"),
        "wf on lab: play by schedule:s",
    ),
    (e.WorkflowEnded(workflow="wf", state=RunState.SUCCEEDED), "succeeded wf"),
    (e.WorkflowRetried(workflow="wf", from_step="wait"), "retried wf from wait"),
    (e.CancelRequested(workflow="wf"), "cancelling wf"),
    (e.StepQueued(step="apply", behind="job_2"), "queued behind job_2"),
    (e.AttemptAdopted(step="apply", job="job_1", attempt=1), "adopted job_1 attempt 1"),
    (e.AttemptLost(step="apply", job="job_1", attempt=1, reason="gone"), "lost job_1 attempt 1 gone"),
    (e.HostAnswered(host="web1", address="::1", port=22, after_s=2, banner="SSH-2.0-x"), "at ::1 port 22 after 2.0s"),
    (
        e.HostPinned(name="[a]:2", key_type="ssh-rsa", fingerprint="SHA256:x", trust=Trust.TOFU),
        "pinned [a]:2 ssh-rsa",
    ),
    (e.HostKeyRefused(host="w", name="w", recorded=("t SHA256:a",), offered=("t SHA256:b",)), "offered t SHA256:b"),
    (e.PinForgotten(name="w"), "forgotten w"),
    (e.FleetKeyRotated(fingerprint="SHA256:new", replaced="SHA256:old"), "SHA256:new replaces SHA256:old"),
    (
        e.OutputsCaptured(
            inventory="tf:e", generation=1, path="/x", outputs=2, hosts=0, message="captured 2 output(s)"
        ),
        "captured 2 output(s)",
    ),
    (e.HostJoined(inventory="tf:e", host="w"), "joined w in tf:e"),
    (e.HostLeft(inventory="tf:e", host="w"), "left w of tf:e"),
    (e.WorkspaceAdded(workspace="e", directory="/d"), "added e /d"),
    (e.WorkspaceRemoved(workspace="e"), "removed e"),
    (e.DaemonStarted(version="1.0", running=2), "started 1.0, sandbox enforcing, 2 job(s) running"),
    (e.DaemonStopped(), "stopped"),
    (e.InventoryAdded(inventory="lab", generation=2, hosts=3), "added lab generation 2 naming 3 host(s)"),
    (e.InventoryRemoved(inventory="lab"), "removed lab"),
    (e.ContentVendored(requirements="/r.yml", entries=("a.b 1.0",), digest="00"), "changed a.b 1.0"),
    (
        f.ScheduleAdded(schedule="s", cron="0 0 3 * * *", zone="UTC", target="tf:e"),
        "added s at 0 0 3 * * * UTC on tf:e",
    ),
    (f.ScheduleRemoved(schedule="s"), "removed s"),
    (f.SchedulePaused(schedule="s"), "paused s"),
    (f.ScheduleResumed(schedule="s"), "resumed s"),
    (f.ScheduleFired(workflow="wf", schedule="s", outcome=Outcome.QUEUED), "queued wf by s by hand"),
    (
        f.ScheduleSkipped(schedule="s", outcome=Outcome.MISSED, reason="too late", due_at=v.AT),
        "missed s due 2023-11-1",
    ),
    (
        f.ScheduleRefused(schedule="s", reason="no hosts", hint="apply", due_at=v.AT),
        "started nothing: no hosts (apply)",
    ),
    (
        a.ApprovalAsked(approval="ap_1", step="apply", summary="1 to destroy", expires_at=v.AT),
        "apply asks 1 to destroy: exocomp approval show ap_1",
    ),
    (
        a.ApprovalDecided(approval="ap_1", approved=False, by="ada", reason="no"),
        "approval rejected ap_1 by ada: no",
    ),
    (a.ApprovalVoided(approval="ap_1", reason="too late"), "approval void ap_1: too late"),
    (f.RuleAdded(rule="r", on="host.joined", target="tf:e"), "added r on host.joined, for tf:e"),
    (f.RuleRemoved(rule="r"), "removed r"),
    (f.RuleEnabled(rule="r"), "enabled r"),
    (f.RuleDisabled(rule="r"), "disabled r"),
    (f.RuleFired(workflow="wf", rule="r", outcome=Outcome.STARTED, event=7), "started wf by r for event 7"),
    (f.RuleSkipped(rule="r", reason="its own doing", event=7), "skipped r for event 7: its own doing"),
    (f.RuleRefused(rule="r", reason="no hosts", event=7), "refused r for event 7 started nothing: no hosts"),
]


@pytest.mark.parametrize(("event", "words"), EVENTS, ids=lambda value: type(value).__name__)
def test_an_event_is_one_line(event: e.AnyEvent, words: str) -> None:
    line = lines.event_line(e.Recorded(seq=1, at=v.AT, event=event), zone=UTC)
    assert line.startswith("22:13:20  ")
    assert "\n" not in line
    assert words in re.sub(" +", " ", line)


def test_every_event_has_words_of_its_own() -> None:
    assert {type(event) for event, _ in EVENTS} == set(e.AnyEvent.__args__)


def test_progress_is_one_line_however_wild() -> None:
    progress = Progress(state="changed", subject="web1", what="copy\nmotd", detail="\x1b[31m", elapsed_s=1.5)
    line = lines.progress_line("configure", progress, v.AT, zone=UTC)
    assert line == "22:13:20  configure  changed     web1 copy\\nmotd · \\x1b[31m (1.5s)"


def moved(step: str, stage: str, old: str, new: str, at: float) -> e.Recorded:
    event = e.StepMoved(step=step, stage=stage, old=StepState(old), new=StepState(new), job="job_1")
    return e.Recorded(seq=1, at=at, event=event)


def test_the_picture_follows_events_and_progress() -> None:
    board = Board(v.RUNNING)
    board.progress("apply", Progress(state="ok", subject="terraform_data.vm", what="create"))
    picture = board.picture(v.AT + 5, width=100, height=30, color=False)
    assert re.search(r"apply +running +5.0s +ok=1", picture)
    assert "terraform_data.vm ok" in picture
    board.progress("apply", Progress(state="plain", subject="web1", what="recap", detail="ok=1"))
    assert re.search(r"web1 +recap ok=1", board.picture(v.AT + 5, width=100, height=30, color=False))
    board.event(moved("apply", "apply", "running", "succeeded", v.AT + 9))
    board.event(moved("wait", "wait", "ready", "running", v.AT + 9))
    board.event(e.Recorded(seq=2, at=v.AT, event=e.HostAnswered(host="web1", address="a", port=22, after_s=3.0)))
    picture = board.picture(v.AT + 12, width=100, height=30, color=False)
    assert re.search(r"apply +succeeded +9.0s", picture)
    assert re.search(r"web1 answered +after 3.0s", picture)
    assert "terraform_data.vm" not in picture


def test_the_picture_shows_pin_and_onboard_as_one_row() -> None:
    board = Board(v.ledger("succeeded", "succeeded", "ready", "blocked", "blocked"))
    board.event(moved("pin", "onboard", "ready", "running", v.AT + 20))
    assert re.search(r"onboard +running +1.0s +pin", board.picture(v.AT + 21, width=99, height=9, color=False))
    board.event(moved("pin", "onboard", "running", "succeeded", v.AT + 22))
    board.event(moved("onboard", "onboard", "blocked", "ready", v.AT + 22))
    board.event(moved("onboard", "onboard", "ready", "running", v.AT + 22))
    assert re.search(r"onboard +running +3.0s", board.picture(v.AT + 23, width=99, height=9, color=False))
    board.event(moved("onboard", "onboard", "running", "succeeded", v.AT + 25))
    assert re.search(r"onboard +succeeded +5.0s", board.picture(v.AT + 99, width=99, height=9, color=False))


def test_the_picture_never_outgrows_the_terminal() -> None:
    board = Board(v.RUNNING)
    for number in range(500):
        board.progress(
            "apply", Progress(state="failed", subject=f"日本{number}" * 9, what="x" * 300, detail="y" * 99)
        )
    picture = board.picture(v.AT, width=60, height=12, color=True).splitlines()
    assert len(picture) <= 12
    assert max(cells(ESCAPE.sub("", line)) for line in picture) <= 60
