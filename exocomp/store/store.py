"""The one connection that writes: a transaction is a state change plus its events, on disk when it returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from exocomp import crash
from exocomp.errors import Conflict, ExocompError, NotFound
from exocomp.protocol.events import AnyEvent
from exocomp.store.migrate import check, migrate, migrations

DISK = (
    apsw.FullError,
    apsw.IOError,
    apsw.ReadOnlyError,
    apsw.CorruptError,
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.NotADBError,
)
START = "start a daemon once: exocomp serve"
_encode = msgspec.json.Encoder().encode


class StoreUnwell(ExocompError):
    """The disk refused a transaction; nothing of it was recorded."""

    code = "store_unwell"


class Store:
    """`rang` is called after each commit that appended events. Reading functions take any Store."""

    def __init__(self, db: apsw.Connection, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self.db = db
        self.path = path
        self.now = now
        self.rang: Callable[[], None] = lambda: None

    @contextmanager
    def transaction(self, name: str) -> Iterator[Transaction]:
        """One BEGIN IMMEDIATE … COMMIT with the crash points `<name>:before` and `<name>:after`."""
        tx = Transaction(self)
        try:
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield tx
                crash.point(f"{name}:before")
                self.db.execute("COMMIT")
            except BaseException:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                raise
        except DISK as error:
            raise StoreUnwell(
                f"the store {self.path} could not record {name!r}: {error}",
                hint="check disk space and permissions of the data dir; nothing of this step was recorded",
            ) from error
        crash.point(f"{name}:after")
        if tx.appended:
            self.rang()

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Raises StoreUnwell when the disk refuses, except inside a transaction, which tells it as its own."""
        try:
            return self.db.execute(sql, values).fetchall()
        except DISK as error:
            if self.db.in_transaction:
                raise
            raise unreadable(self.path, error) from error

    def row(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        rows = self.rows(sql, *values)
        return rows[0] if rows else None

    def close(self) -> None:
        self.db.close()


class Transaction:
    """What a writing function may do inside its transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.now = store.now()
        self.appended = 0

    def run(self, sql: str, *values: Any) -> int:
        """Execute one statement; returns the number of rows it changed."""
        self._store.db.execute(sql, values).fetchall()
        return int(self._store.db.changes())

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._store.rows(sql, *values)

    def row(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        return self._store.row(sql, *values)

    def event(self, event: AnyEvent) -> None:
        tag = str(type(event).__struct_config__.tag)
        self.run(
            "INSERT INTO event (at, type, workflow, workspace, body) VALUES (?, ?, ?, ?, ?)",
            self.now,
            tag,
            event.workflow,
            event.workspace,
            _encode(event).decode(),
        )
        self.appended += 1


def open_writer(path: Path, *, now: Callable[[], float] = time.time) -> Store:
    """Create or open the ledger, WAL and synchronous=FULL, migrated; the caller holds the daemon's lock."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        db = apsw.Connection(str(path))
        db.set_busy_timeout(5000)
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "FULL")
        db.pragma("foreign_keys", "ON")
        db.transaction_mode = "IMMEDIATE"
        migrate(db, str(path))
    except (OSError, *DISK) as error:
        raise unreadable(path, error) from error
    return Store(db, path, now=now)


def open_reader(path: Path) -> Store:
    """A read-only view, with or without a daemon; raises NotFound when there is no store yet, Conflict when its
    schema is not this code's."""
    if not path.exists():
        raise NotFound(f"there is no ledger at {path}", hint=START)
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        db.set_busy_timeout(5000)
        found, newest = check(db, str(path)), migrations()[-1][0]
    except DISK as error:
        raise unreadable(path, error) from error
    if found == 0:
        raise NotFound(f"the store at {path} is empty", hint=START)
    if found < newest:
        raise Conflict(f"the store {path} has schema {found}, this exocomp reads {newest}", hint=START)
    return Store(db, path)


def unreadable(path: Path, error: Exception) -> StoreUnwell:
    return StoreUnwell(
        f"the store {path} cannot be opened or read: {error}",
        hint="check disk space and permissions of the data dir; if the file is damaged, restore it from a backup",
    )
