"""The master key: a 0600 file in the data dir, or a credential of systemd; never in the ledger."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from exocomp import private_file
from exocomp.config import Layout
from exocomp.errors import ExocompError
from exocomp.secrets.sealing import KEY_BYTES, Seal

CREDENTIAL = "exocomp-master-key"  # its name in $CREDENTIALS_DIRECTORY, see systemd.exec(5)
_WRITTEN = re.compile(rb"[0-9a-f]{64}\s*")
_LOST = "what it sealed can't be opened without it: put it back, or restore a backup"


def unlock(layout: Layout, env: Mapping[str, str], known: str | None) -> Seal:
    """The seal of this data dir; `known` is the id of the key that the ledger knows, None while nothing is sealed.

    The first use makes the key. Raises ExocompError when the key is lost, is another one, is open to others, or is
    not 64 hexadecimal digits; nothing is changed then.
    """
    credential = Path(env["CREDENTIALS_DIRECTORY"]) / CREDENTIAL if "CREDENTIALS_DIRECTORY" in env else None
    path = credential if credential is not None and credential.exists() else layout.master_key
    try:
        if known is None and path == layout.master_key and not path.is_symlink() and not path.exists():
            private_file.create(path, secrets.token_hex(KEY_BYTES).encode() + b"\n")
        # Who may read a credential is systemd's to say, and its mode shows an access list of its.
        text = private_file.read(path, "master key", cure="rotate it: exocomp vault rekey", shared=path == credential)
    except FileNotFoundError:
        raise ExocompError(f"the master key {path} is lost", hint=_LOST) from None
    except OSError as error:
        raise ExocompError(f"cannot use the master key {path}: {error.strerror}", hint=_LOST) from error
    if not _WRITTEN.fullmatch(text):
        raise ExocompError(f"the master key {path} is not 64 hexadecimal digits", hint=_LOST)
    seal = Seal(bytes.fromhex(text.decode()))
    if known not in (None, seal.id):
        raise ExocompError(f"{path} holds master key {seal.id}, and this data dir is sealed with {known}", hint=_LOST)
    return seal
