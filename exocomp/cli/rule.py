"""`exocomp playbook rule`: what starts when something happened."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from exocomp.cli import converging_views, doing, output, parse, reading
from exocomp.cli.options import COMMON, Common
from exocomp.cli.wording import NO_DELIMITER
from exocomp.cli.work import AllowDestroy, Egress, Key, Kind, Rest, SshIdentity, work
from exocomp.cli.workspace import Yes
from exocomp.errors import WrongUsage
from exocomp.model import Rule
from exocomp.protocol.commands import AddRule, DisableRule, Done, EnableRule, RemoveRule
from exocomp.protocol.converging import Fires, ListFires, ListRules, Rules, RuleView, ShowRule

app = App(name="rule")
Name = Annotated[str, Parameter(help="A rule.")]


@app.command(
    end_of_options_delimiter=NO_DELIMITER,
    usage="Usage: exocomp playbook rule add NAME --on EVENT [OPTIONS] -- PLAYBOOK [FLAGS OF THE PLAY]",
)
def add(
    name: Annotated[str, Parameter(help="What to call it.")],
    /,
    *,
    on: Annotated[
        str, Parameter(help="What it answers, as host.joined, workspace.applied, job.failed; a wrong one lists all.")
    ],
    match: Annotated[
        tuple[str, ...],
        Parameter(help="FIELD=TEXT that the event must have, with * and ? as in a shell; may repeat."),
    ] = (),
    inventory: Annotated[str | None, Parameter(help="What the play runs over, as tf:edge.")] = None,
    kind: Annotated[Kind, Parameter(help="A play over an inventory, or an apply or plan of a workspace.")] = "play",
    target: Annotated[str | None, Parameter(help="The workspace of an apply or plan.")] = None,
    concurrency_key: Key = None,
    allow_destroy: AllowDestroy = False,
    egress: Egress = (),
    ssh_identity: SshIdentity = (),
    rest: Rest = (),
    common: Common = COMMON,
) -> int:
    """Start a play, an apply or a plan whenever something happens. It never answers what it caused itself.

    In --limit, {host} is the host of the event.

    For example:
        exocomp playbook rule add greet --on host.joined --inventory tf:edge -- motd.yml --limit '{host}'
        exocomp playbook rule add lb --on host.left --match 'host=web*' --inventory tf:lb -- lb.yml -t pool
        exocomp playbook rule add dns --on workspace.applied --match workspace=edge --kind apply --target dns
    """
    named = parse.name(name, "rule")
    rule = Rule(
        name=named,
        on=on,
        match=parse.pairs(match, "--match"),
        work=work(
            kind,
            _target(kind, inventory, target),
            key=concurrency_key,
            egress=egress,
            ssh_identity=ssh_identity,
            rest=rest,
            allow_destroy=allow_destroy,
            example=f"exocomp playbook rule add {named} --on {on} --inventory {inventory or target}",
        ),
    )
    done = doing.do(common, AddRule(rule=rule), Done)
    output.emit(common, done, done.message)
    return 0


def _target(kind: Kind, inventory: str | None, target: str | None) -> str:
    """--inventory and --target say the same of a play."""
    if kind != "play":
        if inventory is not None:
            raise WrongUsage(
                f"--inventory {inventory!r} is for a play, and this is --kind {kind}",
                hint="name the workspace with --target",
            )
        if target is None:
            raise WrongUsage(f"--kind {kind} needs a workspace", hint="name it with --target")
        return target
    if inventory is not None and target not in (None, inventory):
        raise WrongUsage(f"--inventory {inventory!r} and --target {target!r} name two inventories")
    if inventory is None and target is None:
        raise WrongUsage("a play needs an inventory", hint="name it with --inventory, as --inventory tf:edge")
    return inventory or target or ""


@app.command(name="list")
def list_(*, common: Common = COMMON) -> int:
    """Every rule: what it answers, and what its latest fire came to. Works with the daemon down.

    For example:
        exocomp playbook rule list
    """
    found = reading.ask(common, ListRules(), Rules)
    text = converging_views.rule_rows(found.rules, width=output.width(), color=output.colored())
    output.emit(common, found, text)
    return 0


@app.command
def show(name: Name, /, *, common: Common = COMMON) -> int:
    """One rule and what it starts. Works with the daemon down.

    For example:
        exocomp playbook rule show greet
    """
    view = reading.ask(common, ShowRule(name=name), RuleView)
    output.emit(common, view, converging_views.rule(view, color=output.colored()))
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
        exocomp playbook rule history greet
    """
    query = ListFires(source="rule", name=name, limit=parse.count(limit, "--limit"))
    found = reading.ask(common, query, Fires)
    output.emit(common, found, converging_views.fire_rows(found.fires, width=output.width(), color=output.colored()))
    return 0


@app.command
def enable(name: Name, /, *, common: Common = COMMON) -> int:
    """Go on with a disabled rule; what happened meanwhile is not answered.

    For example:
        exocomp playbook rule enable greet
    """
    done = doing.do(common, EnableRule(name=name), Done)
    output.emit(common, done, done.message)
    return 0


@app.command
def disable(name: Name, /, *, common: Common = COMMON) -> int:
    """Let it answer nothing until it is enabled.

    For example:
        exocomp playbook rule disable greet
    """
    done = doing.do(common, DisableRule(name=name), Done)
    output.emit(common, done, done.message)
    return 0


@app.command
def remove(name: Name, /, *, yes: Yes = False, common: Common = COMMON) -> int:
    """Forget a rule and its history; what it started goes on.

    For example:
        exocomp playbook rule remove greet
        exocomp playbook rule remove greet --yes
    """
    if not output.confirm(f"remove rule {name}", yes=yes):
        output.note("nothing was removed")
        return 1
    done = doing.do(common, RemoveRule(name=name), Done)
    output.emit(common, done, done.message)
    return 0
