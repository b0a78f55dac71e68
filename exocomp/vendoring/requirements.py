"""A requirements.yml read strictly: every entry with its kind, source and version, or a refusal that names it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import yaml

from exocomp.errors import WrongUsage

LARGEST = 1 << 20  # bytes of a requirements file
COLLECTION_KEYS = ("name", "version", "source", "type", "signatures")
ROLE_KEYS = ("name", "src", "scm", "version")
TYPES = ("galaxy", "git", "url", "file", "dir")

FULL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*")
_ROLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SERVER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")  # an entry of galaxy's own server_list
_GIT_URL = re.compile(r"(https?|ssh|git|file)://.+|[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+:.+")
_ARCHIVE = (".tar.gz", ".tgz", ".tar")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """One entry. `kind` is collection or role, `type` one of TYPES, `source` a URL, an absolute path or a server.

    The name is empty where a collection's source tells it; version and source are empty for galaxy's own default.
    """

    kind: str
    type: str
    name: str = ""
    version: str = ""
    source: str = ""
    signatures: tuple[str, ...] = ()


class Requirements(msgspec.Struct, frozen=True, kw_only=True):
    collections: tuple[Wanted, ...] = ()
    roles: tuple[Wanted, ...] = ()


def read(file: Path) -> Requirements:
    """What a requirements file asks for, relative paths taken from its own directory.

    Both forms of the Galaxy user guide: a list of roles, or `collections:` and `roles:`. Nothing of it is run.
    Raises WrongUsage naming the entry and the field that does not fit.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except OSError as error:
        raise WrongUsage(
            f"cannot read the requirements file {file}: {error.strerror}", hint="name one that the daemon can read"
        ) from None
    if len(content) > LARGEST:
        raise WrongUsage(f"{file} is larger than {LARGEST >> 20} MiB", hint="name a requirements.yml")
    try:
        document = yaml.safe_load(content)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" at line {where.line + 1}" if where else ""
        reason = getattr(error, "problem", None) or "it can't be decoded"
        raise WrongUsage(f"{file} is not YAML{line}: {reason}", hint="correct it there") from None
    return _document(file, document)


def _document(file: Path, document: Any) -> Requirements:
    if document is None:
        document = []
    if isinstance(document, list):
        document = {"roles": document}
    if not isinstance(document, dict):
        raise WrongUsage(
            f"{file} holds {_kind(document)}", hint="a list of roles, or the keys `collections:` and `roles:`"
        )
    for key in document:
        if key not in ("collections", "roles"):
            raise WrongUsage(f"{file} has an unknown key {key!r}", hint="known keys: collections, roles")
    wanted: dict[str, tuple[Wanted, ...]] = {}
    for key, parse in (("collections", _collection), ("roles", _role)):
        entries = document.get(key) or []
        if not isinstance(entries, list):
            raise WrongUsage(f"{key} in {file} is {_kind(entries)}", hint="make it a list: one `- name: …` an entry")
        wanted[key] = tuple(parse(_Place(file, key, number), entry) for number, entry in enumerate(entries, 1))
        _refuse_twins(file, key, wanted[key])
    return Requirements(collections=wanted["collections"], roles=wanted["roles"])


class _Place:
    """Where in the file an entry stands, and how its fields are refused."""

    def __init__(self, file: Path, key: str, number: int) -> None:
        self.directory = file.parent
        self._words = f"entry {number} of {key} in {file}"

    def refuse(self, what: str, hint: str) -> NoReturn:
        raise WrongUsage(f"{self._words}: {what}", hint=hint)

    def fields(self, entry: Mapping[Any, Any], known: tuple[str, ...]) -> dict[str, str]:
        """The entry's fields as text; one that is empty counts as absent."""
        if "include" in entry:
            self.refuse("`include` is not followed", "write the entries of that file here")
        fields = {}
        for key, value in entry.items():
            if key not in known:
                self.refuse(f"unknown key {key!r}", f"known keys: {', '.join(known)}")
            if key == "signatures" or value is None:
                continue
            if not isinstance(value, str):
                self.refuse(f"{key} is {_kind(value)} ({value}), not text", f'put it in quotes: {key}: "{value}"')
            fields[key] = self.plain(key, value.strip())
        return {key: value for key, value in fields.items() if value}

    def plain(self, key: str, value: str) -> str:
        """The value, which no program may take for an option."""
        if value.startswith("-") or not value.isprintable():
            self.refuse(f"{key} {value!r} is not usable", "it may not begin with - nor hold control characters")
        return value

    def path(self, key: str, text: str, *, type: str) -> str:
        """The absolute path of what a source names; it has to be there."""
        path = (self.directory / Path(text.removeprefix("file://")).expanduser()).absolute()
        fits = path.is_dir() if type == "dir" else path.is_file() if type == "file" else path.exists()
        if not fits:
            missing = "is not a directory" if type == "dir" else "is not a file" if type == "file" else "is not there"
            self.refuse(
                f"{key} {text}: {path} {missing}", "relative paths are taken from the requirements file's directory"
            )
        if type == "dir" and not any((path / name).is_file() for name in ("galaxy.yml", "MANIFEST.json")):
            self.refuse(
                f"{key} {text}: {path} is no collection: it has neither galaxy.yml nor MANIFEST.json",
                "name the directory of one collection",
            )
        return str(path)

    def git(self, key: str, text: str) -> str:
        """A URL that git clones by itself, never through a remote helper program (gitremote-helpers(7))."""
        text = text.removeprefix("git+")
        if _GIT_URL.fullmatch(text) and not text.startswith("file://"):
            return text
        if "::" in text or ("://" in text and not text.startswith("file://")):
            self.refuse(f"{key} {text!r} is no git URL", "https, ssh, git or file, or user@host:path")
        place, sign, below = text.partition("#")
        return f"file://{self.path(key, place, type='git')}{sign}{below}"

    def url(self, key: str, text: str) -> str:
        if not text.startswith(("http://", "https://")):
            self.refuse(f"{key} {text!r} is no URL of an archive", "http or https")
        return text


def _collection(place: _Place, entry: Any) -> Wanted:
    if isinstance(entry, str):
        entry = {"name": entry}
    if not isinstance(entry, dict):
        place.refuse(f"it is {_kind(entry)}", "a name, or a map with the key `name`")
    fields = place.fields(entry, COLLECTION_KEYS)
    name, source = fields.get("name", ""), fields.get("source", "")
    if not name and not source:
        place.refuse("it has neither a name nor a source", "for example: - name: ansible.posix")
    type = fields.get("type") or ("galaxy" if FULL_NAME.fullmatch(name) else _type_of(place, source or name))
    if type not in TYPES:
        place.refuse(f"type {type!r} is not known", f"one of {', '.join(TYPES)}")
    if type != "galaxy" and not source:
        name, source = "", name
    if (name or type == "galaxy") and not FULL_NAME.fullmatch(name):
        place.refuse(f"name {name!r} is no collection's name", "namespace.name, with letters, digits and underscores")
    version = fields.get("version", "")
    if type == "git" and not version:
        source, _, version = source.partition(",")
        place.plain("version", version)
    signatures = entry.get("signatures") or []
    signatures = [signatures] if isinstance(signatures, str) else signatures
    if not isinstance(signatures, list) or not all(isinstance(each, str) for each in signatures):
        place.refuse("signatures is no list of texts", "one URI each")
    return Wanted(
        kind="collection",
        type=type,
        name=name,
        version=version,
        source=_source(place, "source" if "source" in fields else "name", source, type),
        signatures=tuple(place.plain("signatures", each) for each in signatures),
    )


def _role(place: _Place, entry: Any) -> Wanted:
    if isinstance(entry, str):  # src[,version[,name]]
        parts = [part.strip() for part in entry.split(",")]
        if len(parts) > 3:
            place.refuse(f"{entry!r} has too many commas", "src[,version[,name]]")
        entry = dict(zip(("src", "version", "name"), parts, strict=False))
    if not isinstance(entry, dict):
        place.refuse(f"it is {_kind(entry)}", "a name, or a map with the key `src` or `name`")
    fields = place.fields(entry, ROLE_KEYS)
    source = fields.get("src") or fields.get("name", "")
    if not source:
        place.refuse("it has neither a src nor a name", "for example: - src: geerlingguy.docker")
    if (scm := fields.get("scm", "git")) != "git":
        place.refuse(f"scm {scm!r} is not known", "only git")
    on_github = "github.com" in source and source.startswith("http") and not source.endswith(".tar.gz")
    type = "git" if "scm" in fields or on_github else _type_of(place, source)
    if type == "dir":
        place.refuse(
            f"src {source} is a directory", "pack it as a .tar.gz, name a git repository, or keep it in the project"
        )
    name = fields.get("name", "") if "src" in fields else ""
    if type != "galaxy" or name:
        name = name or _last_part(source)
        if not _ROLE_NAME.fullmatch(name):
            place.refuse(f"name {name!r} is no role's name", "letters, digits, dot, dash and underscore")
    elif not _ROLE_NAME.fullmatch(source):
        place.refuse(f"src {source!r} is neither a role's name nor a path that is there", "namespace.name, or a path")
    return Wanted(
        kind="role",
        type=type,
        name=name or source,
        version=fields.get("version", ""),
        source=source if type == "galaxy" else _source(place, "src" if "src" in fields else "name", source, type),
    )


def _type_of(place: _Place, source: str) -> str:
    """What a source is that says no type, as ansible-galaxy would tell it."""
    if source.startswith(("git+", "git@", "ssh://", "git://")) or ("://" in source and source.endswith(".git")):
        return "git"
    if source.startswith(("http://", "https://")):
        return "url"
    path = place.directory / Path(source.removeprefix("file://")).expanduser()
    if path.is_dir():
        return "dir"
    if path.is_file() or source.endswith(_ARCHIVE) or "/" in source:
        return "file"
    return "galaxy"


def _source(place: _Place, key: str, source: str, type: str) -> str:
    match type:
        case "git":
            return place.git(key, source)
        case "url":
            return place.url(key, source)
        case "file" | "dir":
            return place.path(key, source, type=type)
    if source and not source.startswith(("http://", "https://")) and not _SERVER_NAME.fullmatch(source):
        place.refuse(f"{key} {source!r} is no Galaxy server", "its URL, or its name in the server list")
    return source


def _last_part(source: str) -> str:
    last = source.rstrip("/").rpartition("/")[2]
    for ending in (".git", *_ARCHIVE):
        last = last.removesuffix(ending)
    return last


def _refuse_twins(file: Path, key: str, wanted: tuple[Wanted, ...]) -> None:
    seen: dict[str, int] = {}
    for number, each in enumerate(wanted, 1):
        name = each.name or each.source
        if (first := seen.setdefault(name, number)) != number:
            raise WrongUsage(
                f"entries {first} and {number} of {key} in {file} are both {name}", hint="keep the one you mean"
            )


def _kind(value: object) -> str:
    names = {dict: "a map", list: "a list", str: "text", bool: "a truth value", int: "a number", float: "a number"}
    return "nothing" if value is None else names.get(type(value), f"a {type(value).__name__}")
