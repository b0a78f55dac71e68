"""`exocomp schedule`: what starts at fixed times."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from cyclopts import App, Parameter

from exocomp.cli import converging_views, doing, output, parse, reading
from exocomp.cli.following import begin
from exocomp.cli.options import COMMON, Common
from exocomp.cli.provision import Wait
from exocomp.cli.wording import NO_DELIMITER
from exocomp.cli.work import AllowDestroy, Egress, Key, Kind, Rest, SshIdentity, work
from exocomp.cli.workspace import Yes
from exocomp.model import CatchUp, Schedule
from exocomp.protocol.commands import (
    AddSchedule,
    Done,
    PauseSchedule,
    Planned,
    RemoveSchedule,
    ResumeSchedule,
    RunSchedule,
)
from exocomp.protocol.converging import Fires, ListFires, ListSchedules, Schedules, ScheduleView, ShowSchedule

app = App(name="schedule")
Name = Annotated[str, Parameter(help="A schedule.")]


@app.command(
    end_of_options_delimiter=NO_DELIMITER,
    usage="Usage: exocomp schedule add NAME --cron CRON --target TARGET [OPTIONS] -- PLAYBOOK [FLAGS OF THE PLAY]",
)
def add(
    name: Annotated[str, Parameter(help="What to call it.")],
    /,
    *,
    cron: Annotated[str, Parameter(help="Six fields: seconds minutes hours day-of-month month day-of-week.")],
    tz: Annotated[str, Parameter(help="The zone of its times, as Europe/Berlin.")] = "UTC",
    kind: Annotated[Kind, Parameter(help="A play over an inventory, or an apply or plan of a workspace.")] = "play",
    target: Annotated[str, Parameter(help="The inventory of a play, as tf:edge; else the workspace.")],
    concurrency_key: Key = None,
    catch_up: Annotated[
        Literal["none", "once"],
        Parameter(help="After fires that fell due with no daemon up: none of them, or once for all."),
    ] = "none",
    allow_destroy: AllowDestroy = False,
    egress: Egress = (),
    ssh_identity: SshIdentity = (),
    rest: Rest = (),
    common: Common = COMMON,
) -> int:
    """Start a play, an apply or a plan at fixed times; prints the next three.

    It names the inventory and not its hosts: those that a later apply adds are converged at the next time.

    For example:
        exocomp schedule add fleet-converge --cron '0 0 3 * * *' --target tf:edge -- converge.yml
        exocomp schedule add drift --cron '0 30 6 * * MON-FRI' --tz Europe/Berlin --target tf:edge \\
            --concurrency-key edge -- site.yml --check --diff -l 'web*'
        exocomp schedule add nightly --cron '0 0 2 * * *' --kind apply --target edge --catch-up once
    """
    from exocomp.schedule import parse as parse_cron

    named = parse.name(name, "schedule")
    when = parse_cron(cron, tz)
    schedule = Schedule(
        name=named,
        cron=when.text,
        zone=when.zone,
        catch_up=CatchUp(catch_up),
        work=work(
            kind,
            target,
            key=concurrency_key,
            egress=egress,
            ssh_identity=ssh_identity,
            rest=rest,
            allow_destroy=allow_destroy,
            example=f"exocomp schedule add {named} --cron '{when.text}' --target {target}",
        ),
    )
    planned = doing.do(common, AddSchedule(schedule=schedule), Planned)
    output.emit(common, planned, converging_views.planned(planned, when.zone))
    return 0


@app.command(name="list")
def list_(*, common: Common = COMMON) -> int:
    """Every schedule: when it fires next, and what its latest fire came to. Works with the daemon down.

    For example:
        exocomp schedule list
    """
    found = reading.ask(common, ListSchedules(), Schedules)
    text = converging_views.schedule_rows(found.schedules, width=output.width(), color=output.colored())
    output.emit(common, found, text)
    return 0


@app.command
def show(name: Name, /, *, common: Common = COMMON) -> int:
    """One schedule and what it starts. Works with the daemon down.

    For example:
        exocomp schedule show fleet-converge
    """
    view = _view(common, name)
    output.emit(common, view, converging_views.schedule(view, color=output.colored()))
    return 0


def _view(common: Common, name: str) -> ScheduleView:
    return reading.ask(common, ShowSchedule(name=name), ScheduleView)


@app.command(name="next")
def next_(
    name: Name,
    /,
    *,
    count: Annotated[int, Parameter(name=["--count", "-n"], help="How many.")] = 5,
    common: Common = COMMON,
) -> int:
    """The next times of a schedule. Works with the daemon down.

    For example:
        exocomp schedule next fleet-converge
        exocomp schedule next fleet-converge -n 20 --json
    """
    from exocomp.schedule import next_fires
    from exocomp.schedule import parse as parse_cron

    schedule = _view(common, name).schedule
    cron = parse_cron(schedule.cron, schedule.zone)
    fires = next_fires(cron, time.time(), parse.count(count, "--count"))
    text = converging_views.times(fires, schedule.zone)
    output.emit(common, Planned(name=schedule.name, fires_at=fires), text)
    if schedule.paused:
        output.note(f"note: it is paused; go on with it: exocomp schedule resume {schedule.name}")
    return 0


@app.command
def run(name: Name, /, *, wait: Wait = False, common: Common = COMMON) -> int:
    """Fire now, beside its times; also while it is paused.

    For example:
        exocomp schedule run fleet-converge --wait
    """
    return begin(common, RunSchedule(name=name), wait=wait)


@app.command
def pause(name: Name, /, *, common: Common = COMMON) -> int:
    """Let it fire no more until it is resumed.

    For example:
        exocomp schedule pause fleet-converge
    """
    done = doing.do(common, PauseSchedule(name=name), Done)
    output.emit(common, done, done.message)
    return 0


@app.command
def resume(name: Name, /, *, common: Common = COMMON) -> int:
    """Go on with a paused schedule; what fell due meanwhile is not caught up. Prints its next three times.

    For example:
        exocomp schedule resume fleet-converge
    """
    planned = doing.do(common, ResumeSchedule(name=name), Planned)
    output.emit(common, planned, converging_views.planned(planned, _view(common, name).schedule.zone))
    return 0


@app.command
def history(
    name: Name,
    /,
    *,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many at most.")] = 20,
    common: Common = COMMON,
) -> int:
    """Its fires, newest first, each with what became of it. Works with the daemon down.

    For example:
        exocomp schedule history fleet-converge
        exocomp schedule history fleet-converge -n 100 --json
    """
    most = parse.count(limit, "--limit")
    zone = _view(common, name).schedule.zone
    found = reading.ask(common, ListFires(source="schedule", name=name, limit=most), Fires)
    text = converging_views.fire_rows(found.fires, zone=zone, width=output.width(), color=output.colored())
    output.emit(common, found, text)
    return 0


@app.command
def remove(name: Name, /, *, yes: Yes = False, common: Common = COMMON) -> int:
    """Forget a schedule and its history; what it started goes on.

    For example:
        exocomp schedule remove fleet-converge
        exocomp schedule remove fleet-converge --yes
    """
    if not output.confirm(f"remove schedule {name}", yes=yes):
        output.note("nothing was removed")
        return 1
    done = doing.do(common, RemoveSchedule(name=name), Done)
    output.emit(common, done, done.message)
    return 0
