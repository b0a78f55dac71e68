"""`exocomp playbook`: one play over a standing inventory, what plays need offline, and rules that start plays."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from exocomp.cli import doing, output, parse
from exocomp.cli.following import begin
from exocomp.cli.options import COMMON, PLAY_FLAGS, Common, PlayFlags
from exocomp.cli.provision import Wait
from exocomp.cli.render import table
from exocomp.protocol.commands import StartWorkflow, VendorContent, Vendored

app = App(name="playbook")
app.command("exocomp.cli.rule:app", name="rule", help="Start a play, an apply or a plan when something happens.")


@app.command
def run(
    playbook: Annotated[str, Parameter(help="The play.")],
    /,
    *,
    inventory: Annotated[str, Parameter(name=["--inventory", "-i"], help="What it runs over, as tf:edge.")],
    wait: Wait = False,
    play: PlayFlags = PLAY_FLAGS,
    common: Common = COMMON,
) -> int:
    """Run a playbook over the hosts of a standing inventory, as it is now.

    For example:
        exocomp playbook run site.yml --inventory tf:edge --wait
        exocomp playbook run site.yml -i tf:edge --check --diff --limit 'web*'
        exocomp playbook run site.yml -i lab --ssh-identity ~/.ssh/id_ed25519 --egress 2222
    """
    command = StartWorkflow(
        kind="play",
        inventory=inventory,
        playbook=str(parse.regular_file(playbook, "playbook")),
        options=parse.run_options(play),
    )
    return begin(common, command, wait=wait)


@app.command
def vendor(
    *,
    requirements: Annotated[
        str | None, Parameter(help="A requirements.yml; default: what the seeded runbooks need.")
    ] = None,
    common: Common = COMMON,
) -> int:
    """Bring collections and roles into the data dir; every play that starts afterwards finds them there, offline.

    They take the place of what was vendored before. A play that is running keeps what it started with, and a
    project's own collections/ and roles/ come first. Ctrl-C gives it up, and nothing changed then.

    For example:
        exocomp playbook vendor --requirements requirements.yml
        exocomp playbook vendor
    """
    file = None if requirements is None else str(parse.regular_file(requirements, "--requirements"))
    vendored = doing.do(common, VendorContent(requirements=file), Vendored)
    output.emit(common, vendored, _rows(vendored))
    if not common.as_json:
        output.note(_where(vendored))
    return 0


def _rows(vendored: Vendored) -> str:
    if not vendored.entries:
        return ""
    rows = [(each.kind, each.name, each.version, each.source, each.digest[:12]) for each in vendored.entries]
    return table(("KIND", "NAME", "VERSION", "SOURCE", "DIGEST"), rows, width=output.width())


def _where(vendored: Vendored) -> str:
    if not vendored.directory:
        return "nothing is needed: the seeded runbooks use ansible.builtin only; what is vendored stays as it is"
    if not vendored.entries:
        return "nothing is asked for, so nothing is vendored any more"
    return f"vendored in {vendored.directory}"
