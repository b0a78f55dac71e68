"""Numbered migrations, forward only; the file's user_version is the number of the last one applied."""

from __future__ import annotations

from importlib import resources

import apsw

from exocomp.errors import Conflict


def migrations() -> list[tuple[int, str]]:
    """(number, SQL) in order, from the numbered files beside this module."""
    folder = resources.files("exocomp.store") / "migrations"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [(int(file.name.split("_")[0]), file.read_text("utf-8")) for file in files]


def check(db: apsw.Connection, path: str) -> int:
    """The file's schema number; raises Conflict when it is newer than this code."""
    found = int(db.pragma("user_version"))
    newest = migrations()[-1][0]
    if found > newest:
        raise Conflict(
            f"the store {path} has schema {found}, this exocomp knows up to {newest}",
            hint="run the newer exocomp that wrote it, or restore a backup made before the upgrade",
        )
    return found


def migrate(db: apsw.Connection, path: str) -> None:
    """Apply what is missing, each migration in one transaction with its number."""
    found = check(db, path)
    for number, sql in migrations():
        if number > found:
            with db:
                db.execute(sql).fetchall()
                db.execute(f"PRAGMA user_version = {number}").fetchall()
