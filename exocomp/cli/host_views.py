"""The hosts of the standing inventories as text: how each is trusted, and how far it has come; pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from exocomp.cli.render import clean, facts, moment, paint, table
from exocomp.model import Host
from exocomp.protocol.converging import HostView

HEAD = ("HOST", "INVENTORY", "ADDRESS", "PINNED", "ONBOARDED", "CONVERGED", "CHANGED", "UNREACHABLE")
DIGEST = 12  # digits of a digest that are shown


def host_rows(views: Sequence[HostView], *, width: int | None, color: bool) -> str:
    """A row a host, and a line below it when another inventory has the same machine."""
    rows = [
        (
            view.host.name,
            view.inventory,
            address(view.host),
            _pinned(view),
            _when(view.onboarded_at),
            " ".join(filter(None, (_when(view.converged_at), _playbook(view), (view.source or "")[:DIGEST]))),
            _when(view.changed_at),
            _streak(view),
        )
        for view in views
    ]
    body = table(
        HEAD, rows, width=width, color=color, colored="UNREACHABLE", coloring=lambda cell: "red" if cell else None
    )
    title, *lines = body.splitlines()
    out = [title]
    for view, line in zip(views, lines, strict=True):
        out.append(line)
        if view.shared_with:
            out.append("    " + paint(f"also in {clean(', '.join(view.shared_with))}", "yellow", color))
    return "\n".join(out)


def address(host: Host) -> str:
    """As it is dialled; the port only where it is not 22."""
    if not host.over_ssh:
        return host.connection
    return host.address if host.port == 22 else f"{host.address} port {host.port}"


def _pinned(view: HostView) -> str:
    """Nothing for a host that is not reached over ssh: it has no key to pin."""
    if not view.pins:
        return "no" if view.host.over_ssh else ""
    trusts = ", ".join(dict.fromkeys(pin.trust.value for pin in view.pins))
    return f"{trusts} {moment(max(pin.pinned_at for pin in view.pins))}"


def _when(at: float | None) -> str:
    return "" if at is None else moment(at)


def _playbook(view: HostView) -> str:
    return Path(view.playbook).name if view.playbook else ""


def _streak(view: HostView) -> str:
    return "" if not view.unreachable else f"{view.unreachable} in a row"


def hosts(views: Sequence[HostView], *, color: bool) -> str:
    """Every mention of a host, a blank line between."""
    return "\n\n".join(_host(view, color) for view in views)


def _host(view: HostView, color: bool) -> str:
    host = view.host
    text = facts(
        [
            ("host", host.name),
            ("inventory", view.inventory),
            ("also in", ", ".join(view.shared_with)),
            ("address", host.address if host.over_ssh else ""),
            ("port", str(host.port) if host.over_ssh else ""),
            ("user", host.user or ""),
            ("connection", host.connection),
            ("proxy", host.proxy or ""),
            *_pins(view),
            ("onboarded", _by(view.onboarded_at, view.onboarded_by)),
            ("converged", _by(view.converged_at, view.converged_by)),
            ("playbook", view.playbook or ""),
            ("source", view.source or ""),
            ("changed", _when(view.changed_at) or "never"),
            ("last tried", _when(view.seen_at) or "never"),
        ]
    )
    if view.unreachable:
        text += "\n" + paint(f"unreachable in its last {view.unreachable} play(s)", "red", color)
    return text


def _pins(view: HostView) -> list[tuple[str, str]]:
    if not view.pins:
        return [("pinned", "no")] if view.host.over_ssh else []
    return [
        ("pinned", f"{pin.key_type} {pin.fingerprint} {pin.trust} {moment(pin.pinned_at)}")
        for pin in sorted(view.pins, key=lambda pin: pin.key_type)
    ]


def _by(at: float | None, workflow: str | None) -> str:
    return "never" if at is None else " by ".join(filter(None, (moment(at), workflow)))
