"""How ansible's own loader is asked what an inventory would dial, and how its answer is judged."""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from exocomp.errors import ExocompError, WrongUsage
from exocomp.inventory import address, ssh_args
from exocomp.inventory.address import Fault
from exocomp.model import Host

T = TypeVar("T")
MEND = "correct the ansible_inventory output and apply again"
_UNMATCHED = "Could not match supplied host pattern"
_SCRIPT = Path(__file__).with_name("dial.py")


def loader_argv(file: Path | None = None) -> tuple[str, ...]:
    """A process that answers for `file` (absolute path); without one, for each line that it reads (see question).

    Starting takes half a second (ansible's imports); without a file it can be started before there is anything to
    ask. Each answer is one line of stdout.
    """
    return (sys.executable, "-I", str(_SCRIPT), *(() if file is None else (str(file),)))


def loader_env(home: Path, plugin: str = "yaml") -> dict[str, str]:
    """The whole environment of that process, which reads files with one `plugin` of ansible's, yaml or ini.

    `home` is a private directory, made if need be; an empty `ansible.cfg` in it keeps the machine's own out.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    config = home / "ansible.cfg"
    if not config.exists():
        config.touch(mode=0o600)
    return {
        "HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CONFIG": str(config),
        "ANSIBLE_HOME": str(home),
        "ANSIBLE_LOCAL_TEMP": str(home / "tmp"),
        "ANSIBLE_INVENTORY_ENABLED": plugin,
        "ANSIBLE_HOST_PATTERN_MISMATCH": "error",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1",
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        "ANSIBLE_NOCOLOR": "1",
    }


def limit_argv(file: Path, limit: str) -> tuple[str, ...]:
    """A process that answers which hosts of `file` a `--limit` leaves; see parse_matched."""
    return (sys.executable, "-I", str(_SCRIPT), f"--limit={limit}", str(file))


def export_argv(file: Path) -> tuple[str, ...]:
    """A process that answers with the inventory `file` as a map of groups; see parse_content."""
    return (sys.executable, "-I", str(_SCRIPT), "--export", str(file))


def question(file: Path) -> bytes:
    """The line to write for one inventory file (absolute path)."""
    return f"{file}\n".encode()


def parse_hosts(
    stdout: bytes, stderr: bytes = b"", code: int = 0, *, sensitive: bool = False, mend: str = MEND
) -> tuple[Host, ...]:
    """The hosts of one answer, in ansible's order; `stdout` is one line.

    Raises ExocompError with ansible's own first line when it can't load the inventory, and WrongUsage naming
    every host that can't be dialled, with the value; `sensitive` leaves values out. `mend` is their hint.
    """
    answer = _answer(stdout, stderr, code)
    if "error" in answer:
        line = str(answer["error"]).strip().split("\n")[0]
        what = "ansible cannot load the inventory" + ("" if sensitive else f": {line}")
        raise ExocompError(what, hint=mend)
    faults: list[str] = []
    hosts = tuple(_Reading(found, faults, sensitive).host() for found in answer["hosts"])
    if faults:
        raise WrongUsage(
            "the inventory has hosts that cannot be dialled: " + "; ".join(faults),
            hint=mend,
        )
    return hosts


def parse_matched(stdout: bytes, stderr: bytes, code: int, *, limit: str) -> tuple[str, ...]:
    """Names of the hosts that a `--limit` leaves, none when a part of it matches no host, as for a play.

    Raises WrongUsage when ansible refuses the pattern.
    """
    answer = _answer(stdout, stderr, code)
    if _UNMATCHED in answer.get("error", ""):
        return ()
    if "error" in answer:
        raise WrongUsage(f"--limit {limit!r} cannot be used: {answer['error']}", hint="name hosts or groups")
    return tuple(answer["matched"])


def parse_content(stdout: bytes, stderr: bytes, code: int, *, file: Path) -> dict[str, Any]:
    """An exported inventory; raises WrongUsage with ansible's own first line when it is none."""
    answer = _answer(stdout, stderr, code)
    if "error" in answer:
        line = str(answer["error"]).strip().split("\n")[0]
        raise WrongUsage(f"{file} is no inventory that ansible reads: {line}", hint="write YAML, JSON or INI")
    content: dict[str, Any] = answer["content"]
    return content


def _answer(stdout: bytes, stderr: bytes, code: int) -> dict[str, Any]:
    try:
        answer = json.loads(stdout)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.keys() & {"hosts", "matched", "content", "error"}:
        return answer
    lines = [line for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    last = f": {lines[-1].strip()}" if lines else ""
    hint = f"try `{sys.executable} -m ansible --version`: ansible-core must be installed beside exocomp"
    raise ExocompError(f"ansible's inventory loader ended with {code} and no answer{last}", hint=hint)


class _Reading:
    """One host of the answer; every rule that it breaks is added to `faults`."""

    def __init__(self, found: dict[str, Any], faults: list[str], sensitive: bool) -> None:
        self._found = found
        self._faults = faults
        self._sensitive = sensitive

    def host(self) -> Host:
        found = self._found
        named = Host(name=found["name"], address="", connection=str(found["connection"]))
        self._checked("name", named.name, address.name, named.name)
        keys = self._checked("exocomp_host_keys", found["declared_keys"], _keys, found["declared_keys"]) or ()
        for option, reason in found["faults"].items():
            if named.over_ssh or option in ("ansible_connection", "exocomp_host_keys"):
                self._broken(option, found.get(f"{option}_given"), reason)
        named = msgspec.structs.replace(named, declared_keys=keys)
        return self._over_ssh(named) if named.over_ssh else self._elsewhere(named)

    def _over_ssh(self, host: Host) -> Host:
        found = self._found
        faults = found["faults"]
        dialled = user = None
        number = 22
        if "address" not in faults:
            dialled = self._checked("address", found["address"], address.address, found["address"])
        if "user" not in faults:
            user = self._checked("user", found["user"], address.user, found["user"])
        if "port" not in faults:
            given = found["port_given"]
            number = self._checked("port", given, address.port, found["port"], given) or 22
        identity = found.get("identity_file")
        own = {"port": None if found.get("port") is None else str(number), "user": user, "identityfile": identity}
        texts = [found.get(key) or "" for key in ("ssh_args", "ssh_common_args", "ssh_extra_args")]
        pairs = tuple((key, str(value)) for key, value in own.items() if value is not None)
        result = self._checked("ssh arguments", " ".join(map(str, texts)), _read_args, texts, pairs)
        if result is None:
            return host
        if result.port not in (None, own["port"]):
            number = self._checked("port in ssh arguments", result.port, _port_text, result.port) or 22
        if result.user != user:
            user = self._checked("user in ssh arguments", result.user, address.user, result.user)
        if result.host_name is not None:
            meant = result.host_name.replace("%h", dialled or "")
            dialled = self._checked("HostName in ssh arguments", result.host_name, address.address, meant)
        proxy = found.get("proxy_command")
        return msgspec.structs.replace(
            host,
            address=dialled or "",
            port=number,
            user=user,
            proxy=f"ProxyCommand={proxy}" if proxy else result.proxy,
            identity_file=result.identity_file,
        )

    def _elsewhere(self, host: Host) -> Host:
        """Nobody dials it from here, so its values are only shown."""
        found = self._found
        text = str(found.get("port") or "").strip()
        return msgspec.structs.replace(
            host,
            address=str(found.get("address") or host.name),
            port=int(text) if text.isdecimal() else 22,
            user=None if found.get("user") is None else str(found["user"]),
        )

    def _checked(self, what: str, shown: Any, rule: Callable[..., T], *values: Any) -> T | None:
        try:
            return rule(*values)
        except Fault as fault:
            self._fault(what, shown, str(fault))
            return None

    def _broken(self, option: str, given: Any, reason: str) -> None:
        """Ansible refuses the value; our own words for why are better where a rule has some."""
        rules: dict[str, Callable[[Any], object]] = {
            "address": address.address,
            "port": lambda value: address.port(value, value),
            "user": address.user,
        }
        if given is None or option not in rules or self._checked(option, given, rules[option], given) is not None:
            self._fault(option, given, f"is not usable: {reason}")

    def _fault(self, what: str, shown: Any, why: str) -> None:
        value = json.dumps(shown, ensure_ascii=False)
        text = f"{what} is a sensitive value that cannot be used" if self._sensitive else f"{what} {value} {why}"
        self._faults.append(f"{self._found['name']}: {text}")


def _read_args(texts: list[Any], own: tuple[tuple[str, str], ...]) -> ssh_args.Dialled:
    if not all(isinstance(text, str) for text in texts):
        raise Fault("is not a string")
    return ssh_args.read(texts[0], own, tuple(texts[1:]))


def _port_text(text: str) -> int:
    return address.port(int(text) if text.isdecimal() else text, text)


def _keys(lines: Any) -> tuple[str, ...]:
    """`type base64` of each line; a comment is dropped."""
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise Fault("is not a list of public keys")
    return tuple(_key(line) for text in lines for line in text.splitlines() if line.strip())


def _key(line: str) -> str:
    kind, _, rest = line.strip().partition(" ")
    try:
        text = rest.split()[0]
        blob = base64.b64decode(text, validate=True)
    except (IndexError, binascii.Error):
        raise Fault(f"has the line {line!r}, which is not `type base64`") from None
    # RFC 4253, 6.6: the blob begins with its own type as a length-prefixed string.
    if blob[4 : 4 + int.from_bytes(blob[:4])] != kind.encode():
        raise Fault(f"has the line {line!r}, whose key is not of the type that it names")
    return f"{kind} {text}"
