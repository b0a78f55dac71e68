"""What ansible-galaxy left in a tree, told as the entries of its lock."""

from __future__ import annotations

import contextlib
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml

from exocomp.errors import ExocompError
from exocomp.vendoring.lock import Locked
from exocomp.vendoring.requirements import Requirements, Wanted
from exocomp.vendoring.tree import COLLECTIONS, ROLES, digest

AS_DEPENDENCY = "a dependency"
_INSTALLED = Path("meta") / ".galaxy_install_info"  # in a role: its version, and a date
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


class _Manifest(msgspec.Struct, frozen=True):
    """MANIFEST.json of an installed collection."""

    class Collection(msgspec.Struct, frozen=True):
        namespace: str
        name: str
        version: str

    collection_info: Collection


def installed(root: Path, wanted: Requirements) -> tuple[Locked, ...]:
    """The entries of the tree at `root`, dependencies as well; ansible-galaxy's dated notes in roles are taken away.

    Raises ExocompError when something wanted is missing, or when a source held another collection than it was
    said to.
    """
    found = [
        *_collections(root / COLLECTIONS / "ansible_collections", wanted.collections),
        *_roles(root / ROLES, wanted.roles),
    ]
    have = {(each.kind, each.name) for each in found}
    for each in (*wanted.collections, *wanted.roles):
        if each.name and (each.kind, each.name) not in have:
            raise ExocompError(
                f"ansible-galaxy said that all went well, but the {each.kind} {each.name} is not there",
                hint="see whether its name is right",
            )
    return tuple(found)


def without_credentials(text: str) -> str:
    """User names and passwords of URLs taken out."""
    return _CREDENTIALS.sub("", text)


def _collections(root: Path, wanted: tuple[Wanted, ...]) -> Iterator[Locked]:
    named = {name: each.source for each in wanted if each.type != "galaxy" and (name := each.name or _own_name(each))}
    nameless = " or ".join(each.source for each in wanted if each.source not in named.values() and not each.name)
    for file in sorted(root.glob("*/*/MANIFEST.json")):
        place = file.parent
        name = f"{place.parent.name}.{place.name}"
        try:
            info = msgspec.json.decode(file.read_bytes(), type=_Manifest).collection_info
        except msgspec.DecodeError as error:
            raise ExocompError(f"the collection {name} has no proper MANIFEST.json: {error}") from None
        if (holds := f"{info.namespace}.{info.name}") != name:
            raise ExocompError(
                f"what is called {name} in the requirements is {holds}: {without_credentials(named.get(name, ''))}",
                hint="correct its name there, or leave the name out",
            )
        source = named.get(name) or _server(root / f"{name}-{info.version}.info" / "GALAXY.yml") or nameless
        yield Locked(
            kind="collection",
            name=name,
            version=info.version,
            source=without_credentials(source),
            digest=digest(place),
        )


def _own_name(wanted: Wanted) -> str:
    """What a collection in a file or a directory calls itself; empty when that can't be told from here."""
    source = Path(wanted.source)
    with contextlib.suppress(OSError, KeyError, tarfile.TarError, msgspec.DecodeError, yaml.YAMLError):
        if wanted.type == "file":
            with tarfile.open(source) as archive, archive.extractfile("MANIFEST.json") or io.BytesIO() as stream:
                info = msgspec.json.decode(stream.read(), type=_Manifest).collection_info
            return f"{info.namespace}.{info.name}"
        if wanted.type == "dir" and (source / "galaxy.yml").is_file():
            told = yaml.safe_load((source / "galaxy.yml").read_bytes())
            return f"{told['namespace']}.{told['name']}"
    return ""


def _server(note: Path) -> str:
    """The server that a collection came from, by ansible-galaxy's note beside it; else empty."""
    if not note.is_file():
        return ""
    content = yaml.safe_load(note.read_bytes())
    return str(content.get("server", "")) if isinstance(content, dict) else ""


def _roles(root: Path, wanted: tuple[Wanted, ...]) -> Iterator[Locked]:
    named = {each.name: "galaxy" if each.type == "galaxy" else each.source for each in wanted}
    for place in sorted(path for path in root.iterdir() if path.is_dir()):
        version = ""
        note = place / _INSTALLED
        if note.is_file():
            content = yaml.safe_load(note.read_bytes())
            version = str(content.get("version") or "") if isinstance(content, dict) else ""
            note.unlink()
        yield Locked(
            kind="role",
            name=place.name,
            version=version,
            source=without_credentials(named.get(place.name, AS_DEPENDENCY)),
            digest=digest(place),
        )
