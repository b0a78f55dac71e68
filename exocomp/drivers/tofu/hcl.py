"""The little of a module's text that has to be known before an engine runs: backend, module sources, variables."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from exocomp.drivers.tofu.files import read_bytes
from exocomp.errors import WrongUsage

_TEXT = (".tf", ".tofu")
_JSON = (".tf.json", ".tofu.json")
SUFFIXES = _TEXT + _JSON
_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\f\v]+|\#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))
      | (?P<here><<-?(?P<mark>[\w-]+)[ \t\r]*\n)
      | (?P<quote>")
      | (?P<word>[^\W\d][\w-]*)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_LARGEST = 16 << 20
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


class Variable(msgspec.Struct, frozen=True):
    """`literal`: a value from a flag is taken as a plain string, not as an expression."""

    literal: bool = True
    ephemeral: bool = False


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """`backend` is the declared backend's type ("cloud" for a cloud block), `path` its literal `path` argument."""

    backend: str | None = None
    path: str | None = None
    sources: tuple[str, ...] = ()
    variables: dict[str, Variable] = {}


class Block(msgspec.Struct):
    """A block with its literal attributes (strings unquoted, other single words as they stand)."""

    kind: str
    labels: list[str]
    attributes: dict[str, str]
    blocks: list[Block]


def module_files(directory: Path, product: str | None = None) -> list[Path]:
    """The files that an engine reads, override files last; None: those of either product.

    OpenTofu prefers x.tofu to x.tf; Terraform does not know .tofu files.
    """
    try:
        found = [path for path in directory.iterdir() if path.name.endswith(SUFFIXES) and path.is_file()]
    except OSError as error:
        raise WrongUsage(f"cannot read {directory}: {error.strerror}") from None
    names = sorted(path.name for path in found if not _ignored(path.name))
    if product == "terraform":
        names = [name for name in names if not name.endswith((".tofu", ".tofu.json"))]
    elif product == "tofu":
        preferred = {name for name in names if name.endswith((".tofu", ".tofu.json"))}
        names = [n for n in names if n in preferred or re.sub(r"\.tf(\.json)?$", r".tofu\1", n) not in preferred]
    return [directory / name for name in sorted(names, key=_is_override)]


def read_module(directory: Path, product: str | None = None) -> Module:
    """What the files of one module declare; a file that can't be parsed counts as far as it can be read."""
    backend = path = None
    sources: list[str] = []
    variables: dict[str, Variable] = {}
    for file in module_files(directory, product):
        for block in _blocks(file):
            if block.kind == "module" and (source := block.attributes.get("source")):
                sources.append(source)
            elif block.kind == "variable" and block.labels:
                variables[block.labels[0]] = _variable(block)
            elif block.kind == "terraform":
                for inner in block.blocks:
                    if inner.kind == "cloud" or (inner.kind == "backend" and inner.labels):
                        backend = "cloud" if inner.kind == "cloud" else inner.labels[0]
                        path = inner.attributes.get("path")
    return Module(backend=backend, path=path, sources=tuple(sources), variables=variables)


def local_modules(directory: Path, product: str | None = None) -> list[Path]:
    """`directory` and every module that it calls, directly or not, by a literal local path."""
    found = [directory]
    for module in found:
        if not module.is_dir():
            continue
        for source in read_module(module, product).sources:
            called = Path(os.path.normpath(module / source))
            if source.startswith(("./", "../")) and called not in found:
                found.append(called)
    return found


def parse(text: str) -> list[Block]:
    """Top-level blocks of HCL text; anything else in it is passed over."""
    return _body(_tokens(text))[1]


def _ignored(name: str) -> bool:
    return name.startswith((".", "#")) or name.endswith("~")


def _is_override(name: str) -> bool:
    stem = re.sub(r"\.(tf|tofu)(\.json)?$", "", name)
    return stem == "override" or stem.endswith("_override")


def _variable(block: Block) -> Variable:
    # Terraform: without a type, and for primitive types, a flag's value is a literal string.
    literal = block.attributes.get("type", "string") in ("string", "number", "bool")
    return Variable(literal, block.attributes.get("ephemeral") == "true")


def _blocks(file: Path) -> list[Block]:
    try:
        text = read_bytes(file, _LARGEST, follow=True).decode("utf-8-sig", "replace")
    except OSError as error:
        raise WrongUsage(f"cannot read {file}: {error.strerror}") from None
    try:
        return list(_json_blocks(json.loads(text))) if file.name.endswith(_JSON) else parse(text)
    except (ValueError, RecursionError):
        return []


def _json_blocks(content: Any) -> Iterator[Block]:
    for body in _bodies(content):
        for kind, value in body.items():
            for inner in _bodies(value):
                if kind in ("module", "variable"):
                    for label, declared in inner.items():
                        for one in _bodies(declared):
                            yield Block(kind, [label], _json_attributes(one), [])
                elif kind == "terraform":
                    yield Block(kind, [], {}, list(_json_settings(inner)))


def _json_settings(settings: dict[str, Any]) -> Iterator[Block]:
    for backends in _bodies(settings.get("backend")):
        for label, body in backends.items():
            for one in _bodies(body) or [{}]:
                yield Block("backend", [label], _json_attributes(one), [])
    if "cloud" in settings:
        yield Block("cloud", [], {}, [])


def _json_attributes(body: dict[str, Any]) -> dict[str, str]:
    plain = {key: value for key, value in body.items() if isinstance(value, str | bool)}
    return {key: value if isinstance(value, str) else str(value).lower() for key, value in plain.items()}


def _bodies(value: Any) -> list[dict[str, Any]]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


def _body(tokens: Iterator[tuple[str, str]]) -> tuple[dict[str, str], list[Block]]:
    """Attributes and blocks up to the brace that closes this body."""
    attributes: dict[str, str] = {}
    blocks: list[Block] = []
    line: list[tuple[str, str]] = []
    for kind, text in tokens:
        if (kind, text) == ("other", "{") and line and ("other", "=") not in line:
            inner = _body(tokens)
            blocks.append(Block(line[0][1], [word for _, word in line[1:]], *inner))
            line = []
        elif kind == "other" and text in "{[(":
            line.append((kind, text))
            _close(tokens)
        elif kind == "other" and text in "\n}":
            if len(line) == 3 and line[1][1] == "=" and line[2][0] in ("word", "string"):
                attributes[line[0][1]] = line[2][1]
            elif len(line) > 2 and line[1][1] == "=":
                attributes[line[0][1]] = ""  # an expression
            line = []
            if text == "}":
                break
        else:
            line.append((kind, text))
    return attributes, blocks


def _close(tokens: Iterator[tuple[str, str]]) -> None:
    depth = 1
    for kind, text in tokens:
        if kind == "other" and text in "{[(":
            depth += 1
        elif kind == "other" and text in "}])":
            depth -= 1
            if depth == 0:
                return


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while match := _TOKEN.match(text, at):
        at = match.end()
        if match["skip"] is not None:
            continue
        if match["here"] is not None:
            end = re.compile(rf"^[ \t]*{re.escape(match['mark'])}[ \t\r]*$", re.MULTILINE).search(text, at)
            at = end.end() if end else len(text)
            yield "expression", ""
        elif match["quote"] is not None:
            value, at = _string(text, at)
            yield ("string", value) if value is not None else ("expression", "")
        elif match["word"] is not None:
            yield "word", match["word"]
        else:
            yield "other", match["other"]


def _string(text: str, at: int) -> tuple[str | None, int]:
    """The value of a quoted template whose opening quote ends at `at` (None when it interpolates), and its end."""
    parts: list[str] | None = []
    while at < len(text) and text[at] != '"':
        char, two = text[at], text[at : at + 2]
        if text[at : at + 3] in ("$${", "%%{"):
            char, at = two[1:] + "{", at + 2
        elif two in ("${", "%{"):
            at = _interpolation(text, at + 2) - 1
            parts = None
        elif char == "\\" and len(two) == 2:
            char, at = _ESCAPES.get(two[1], two), at + 1
        if parts is not None:
            parts.append(char)
        at += 1
    return (None if parts is None else "".join(parts)), at + 1


def _interpolation(text: str, at: int) -> int:
    """The index after the brace that closes an interpolation opened just before `at`."""
    depth = 1
    while depth and at < len(text):
        char = text[at]
        at += 1
        if char == '"':
            _, at = _string(text, at)
        elif char in "{}":
            depth += 1 if char == "{" else -1
    return at
