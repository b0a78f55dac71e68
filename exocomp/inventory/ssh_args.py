"""What a host's own ssh arguments change: destination, port, user and the way through a jump host."""

from __future__ import annotations

import functools
import getopt
import re
import shlex

import msgspec

from exocomp.inventory.address import Fault

_OPTIONS = "1246ab:c:e:fgi:kl:m:no:p:qstvxAB:CD:E:F:GI:J:KL:MNO:P:Q:R:S:TVw:W:XYy"  # ssh.c of OpenSSH 9.2 and 10
_LETTERS = {"p": "port", "l": "user", "J": "proxyjump", "i": "identityfile"}
_PROXIES = {"proxyjump": "ProxyJump", "proxycommand": "ProxyCommand"}
_NO_CONFIG = ("none", "/dev/null")


class Dialled(msgspec.Struct, frozen=True, kw_only=True):
    """What ssh ends up with, as ssh_config(5) has it: the first obtained value of each option is used."""

    host_name: str | None = None
    port: str | None = None
    user: str | None = None
    proxy: str | None = None  # "ProxyJump=…" or "ProxyCommand=…"
    identity_file: str | None = None


def read(first: str, own: tuple[tuple[str, str], ...], then: tuple[str, ...]) -> Dialled:
    """`first` and `then` are argument strings, split as ansible splits them; it puts its `own` options in between.

    Raises Fault for what would make ssh dial, or verify the key of, something that exocomp can't see.
    """
    seen: dict[str, str] = {}
    proxy: str | None = None
    for key, value in (*_options(first), *own, *(pair for text in then for pair in _options(text))):
        if spelled := _PROXIES.get(key):
            way = "none" if value.lower() == "none" else f"{spelled}={value}"
            proxy = proxy or way
        seen.setdefault(key, value)
    if "hostkeyalias" in seen:
        raise Fault("sets HostKeyAlias: keys are pinned under the address that ssh dials")
    return Dialled(
        host_name=seen.get("hostname"),
        port=seen.get("port"),
        user=seen.get("user"),
        proxy=None if proxy == "none" else proxy,
        identity_file=seen.get("identityfile"),
    )


@functools.lru_cache(maxsize=256)
def _options(text: str) -> tuple[tuple[str, str], ...]:
    try:
        pairs, rest = getopt.getopt(shlex.split(text), _OPTIONS)
    except ValueError as error:
        raise Fault(f"can't be split into words: {error}") from None
    except getopt.GetoptError as error:
        raise Fault(f"is not what ssh takes: {error.msg}") from None
    if rest:
        raise Fault(f"has the word {rest[0]!r}, which ssh would take as the host")
    found = []
    for flag, value in pairs:
        letter = flag[1]
        if letter == "F" and value not in _NO_CONFIG:
            raise Fault(f"names the ssh configuration {value}, which plays can't read")
        if letter == "o":
            found.append(_keyword(value))
        elif letter in _LETTERS:
            found.append((_LETTERS[letter], value))
    return tuple(found)


def _keyword(line: str) -> tuple[str, str]:
    match = re.match(r'\s*"?([A-Za-z0-9]+)"?\s*[=\s]\s*(.*)', line, re.DOTALL)
    if match is None:
        return line.strip().lower(), ""
    key, value = match[1].lower(), match[2].strip()
    quoted = len(value) > 1 and value[0] == value[-1] == '"' and '"' not in value[1:-1]
    return key, value[1:-1] if quoted else value
