"""`exocomp host`: how each host stands; pin a host's keys by hand, and what is pinned."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from exocomp.cli import doing, host_views, onboarding, output, reading, views
from exocomp.cli.options import COMMON, Common
from exocomp.cli.workspace import Yes
from exocomp.errors import WrongUsage
from exocomp.protocol.commands import Done, ForgetHost
from exocomp.protocol.converging import Hosts, ListHosts, ShowHost
from exocomp.protocol.queries import ListPins, Pins

app = App(name="host")
known_hosts = App(name="known-hosts", help="Recorded host keys; all but forget work with the daemon down.")
app.command(known_hosts)
HostName = Annotated[str, Parameter(help="A host of an inventory, an address, or a known_hosts name.")]


@app.command(name="list")
def list_hosts(
    *,
    inventory: Annotated[str | None, Parameter(help="Only those of this inventory.")] = None,
    common: Common = COMMON,
) -> int:
    """Every host of every standing inventory: pinned, onboarded, last converged and changed, out of reach.

    Works with the daemon down.

    For example:
        exocomp host list
        exocomp host list --inventory tf:edge
    """
    found = reading.ask(common, ListHosts(inventory=inventory), Hosts)
    text = host_views.host_rows(found.hosts, width=output.width(), color=output.colored())
    output.emit(common, found, text)
    return 0


@app.command(name="show")
def show_host(
    host: Annotated[str, Parameter(help="A host of a standing inventory, or an address.")],
    /,
    *,
    common: Common = COMMON,
) -> int:
    """How one host stands, in each inventory that names it. Works with the daemon down.

    For example:
        exocomp host show web1
        exocomp host show 203.0.113.5 --json
    """
    found = reading.ask(common, ShowHost(host=host), Hosts)
    output.emit(common, found, host_views.hosts(found.hosts, color=output.colored()))
    return 0


@app.command
def onboard(
    host: Annotated[str, Parameter(help="A host of a standing inventory, or an address.")],
    /,
    *,
    port: Annotated[int | None, Parameter(help="Default: what the inventory says, else 22.")] = None,
    user: Annotated[str | None, Parameter(help="Who to log in as, in the printed command.")] = None,
    rotate: Annotated[bool, Parameter(help="Replace recorded keys by those that the host offers now.")] = False,
    yes: Yes = False,
    common: Common = COMMON,
) -> int:
    """Scan a host's keys, pin them, and print the command that onboards it.

    A recorded key that changed is refused (exit 6) until you confirm it out of band and say --rotate.

    For example:
        exocomp host onboard 203.0.113.5
        exocomp host onboard 203.0.113.5 --port 2222 --user debian
        exocomp host onboard web1 --rotate
    """
    if port is not None and not 1 <= port <= 65535:
        raise WrongUsage(f"--port {port} is not between 1 and 65535")
    return onboarding.onboard(common, host, port=port, user=user, rotate=rotate, yes=yes)


@known_hosts.default
@known_hosts.command(name="list")
def list_(*, common: Common = COMMON) -> int:
    """Every pinned key with its fingerprint and how it became trusted.

    For example:
        exocomp host known-hosts
        exocomp host known-hosts list --json
    """
    return _pins(common, ListPins())


@known_hosts.command
def show(host: HostName, /, *, common: Common = COMMON) -> int:
    """The keys pinned for one host.

    For example:
        exocomp host known-hosts show 203.0.113.5
    """
    return _pins(common, ListPins(host=host))


def _pins(common: Common, query: ListPins) -> int:
    found = reading.ask(common, query, Pins)
    output.emit(common, found, views.pin_rows(found.pins, width=output.width()))
    return 0


@known_hosts.command
def export(
    *,
    hashed: Annotated[bool, Parameter(help="Hide the names, as HashKnownHosts does.")] = False,
    common: Common = COMMON,
) -> int:
    """The pins as a known_hosts file for ssh.

    For example:
        exocomp host known-hosts export > known_hosts
        ssh -o UserKnownHostsFile=known_hosts 203.0.113.5
    """
    from exocomp.ssh import known_hosts as file

    pins = reading.ask(common, ListPins(), Pins).pins
    by_name = {pin.name: [one for one in pins if one.name == pin.name] for pin in pins}
    text = file.render_hashed(pins) if hashed else file.render(by_name)
    output.emit(common, {"known_hosts": text}, text.rstrip("\n"))
    return 0


@known_hosts.command
def forget(host: HostName, /, *, yes: Yes = False, common: Common = COMMON) -> int:
    """Forget the keys of a host: its next scan is trusted as the first one is.

    For example:
        exocomp host known-hosts forget 203.0.113.5 --yes
    """
    names = tuple(dict.fromkeys(pin.name for pin in reading.ask(common, ListPins(host=host), Pins).pins))
    if not output.confirm(f"forget the recorded keys of {', '.join(names)}", yes=yes):
        output.note("nothing was forgotten")
        return 1
    messages = [doing.do(common, ForgetHost(name=name), Done).message for name in names]
    output.emit(common, {"forgotten": names}, "\n".join(messages))
    return 0
