"""Standing inventories as text; pure."""

from __future__ import annotations

from collections.abc import Sequence

from exocomp.cli.render import facts, moment, table
from exocomp.model import Host
from exocomp.protocol import queries as q


def inventory_rows(inventories: Sequence[q.InventoryView], *, width: int | None, color: bool) -> str:
    rows = [
        (i.name, str(i.current.number), str(len(i.current.hosts)), _sound(i), moment(i.current.created_at), i.file)
        for i in inventories
    ]
    return table(("NAME", "GEN", "HOSTS", "STATE", "SINCE", "FILE"), rows, width=width, color=color)


def inventory(view: q.InventoryView) -> str:
    return facts(
        [
            ("name", view.name),
            ("generation", f"{view.current.number} of {', '.join(map(str, view.generations))}"),
            ("since", moment(view.current.created_at)),
            ("made by", view.current.workflow or ""),
            ("hosts", str(len(view.current.hosts))),
            ("file", view.file),
            ("state", _sound(view)),
            ("sha256", view.current.digest),
        ]
    )


def _sound(view: q.InventoryView) -> str:
    return "sound" if view.sound else f"altered or lost: {mend(view.name)}"


def mend(inventory: str) -> str:
    """How the file of an inventory is written again."""
    if inventory.startswith("tf:"):
        return f"exocomp workspace apply {inventory.removeprefix('tf:')}"
    return f"exocomp inventory add {inventory} <file>"


def host_rows(hosts: Sequence[Host], *, width: int | None) -> str:
    rows = [
        (h.name, h.address, str(h.port) if h.over_ssh else "", h.user or "", h.connection, h.proxy or "")
        for h in hosts
    ]
    return table(("HOST", "ADDRESS", "PORT", "USER", "CONNECTION", "PROXY"), rows, width=width)
