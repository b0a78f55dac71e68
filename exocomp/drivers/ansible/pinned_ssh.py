"""SSH as a play gets it: wrappers that put the pins before anything that inventory or play asks of ssh."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

from exocomp.drivers.ansible.environment import PATH
from exocomp.errors import ExocompError, WrongUsage

# ssh_config(5): the first obtained value wins, and the command line comes before any file.
_PINS = (
    ("IgnoreUnknown", "KnownHostsCommand"),  # OpenSSH before 8.5
    ("StrictHostKeyChecking", "yes"),
    ("GlobalKnownHostsFile", "/dev/null"),
    ("KnownHostsCommand", "none"),
    ("UpdateHostKeys", "no"),
    ("VerifyHostKeyDNS", "no"),
    ("NoHostAuthenticationForLocalhost", "no"),
)
_NO_FILES = (Path("/proc"), Path("/sys"), Path("/dev"))
# sun_path holds 107 bytes; below the attempt come "/c/", ansible's ten, and ssh's suffix of 17 for a new master.
_LONGEST_ATTEMPT = 107 - len("/c/") - 10 - 17
_SSH = """\
#!/bin/sh
# Only ansible's own control path counts, so that no master of another attempt is reused; without a password
# there is nobody to ask. A public key is what ansible names for a private one that it holds in an agent of its own.
{sole}control=none batch=no agent=
for arg do
  case $arg in
    -S*) echo "exocomp: $arg would use a connection whose host key nobody checked" >&2; exit 255 ;;
    ControlPath=\\"{control_glob}/*) control={control_path}/${{arg##*/}}; control=${{control%\\"}} ;;
    PasswordAuthentication=no) batch=yes ;;
    IdentityFile=*.pub\\") agent=SSH_AUTH_SOCK ;;
  esac
done
exec {ssh} -F {config} {pins} -o "ControlPath=\\"$control\\"" -o BatchMode=$batch \\
  ${{agent:+-o IdentityAgent=$agent}} "$@"
"""
# Before the loop: nothing on the command line may open the door instead of the agent.
_SOLE = """\
left=$#
while [ $left -gt 0 ]; do
  case $1 in
    -i) shift 2; left=$((left - 2)); continue ;;
    -i*) shift; left=$((left - 1)); continue ;;
    -o)
      case $2 in
        [Ii][Dd][Ee][Nn][Tt][Ii][Tt][Yy][Ff][Ii][Ll][Ee][=\\ ]*) shift 2; left=$((left - 2)); continue ;;
      esac ;;
    -o[Ii][Dd][Ee][Nn][Tt][Ii][Tt][Yy][Ff][Ii][Ll][Ee][=\\ ]*) shift; left=$((left - 1)); continue ;;
  esac
  set -- "$@" "$1"
  shift
  left=$((left - 1))
done
"""
_COPY = """\
#!/bin/sh
for arg do
  case $arg in -S*) echo "exocomp: $arg would bypass the pinned host keys" >&2; exit 255 ;; esac
done
exec {tool} -S {ssh} "$@"
"""


class Agent(NamedTuple):
    """The agent that holds keys, and the keys' public lines; `sole`: no other key or password may log in."""

    socket: Path
    public: tuple[str, ...]
    sole: bool = False


def write(attempt: Path, *, known_hosts: str, identities: tuple[Path, ...], agent: Agent | None) -> dict[str, str]:
    """Write known_hosts, ssh's config and the wrappers; returns the connection variables that make ansible use them.

    `identities` are offered in this order, after what inventory or play declares; ssh itself puts keys that an agent
    holds before them all. Raises ExocompError when there is no ssh, WrongUsage for a path that ssh can't be told.
    """
    if len(os.fsencode(attempt)) > _LONGEST_ATTEMPT:
        raise WrongUsage(
            f"the data dir's path is too long for the sockets of ssh: {attempt}", hint="choose a shorter data_dir"
        )
    pinned = attempt / "home" / ".ssh" / "known_hosts"  # where paramiko looks
    pinned.parent.mkdir(mode=0o700)
    write_private(pinned, known_hosts)
    options = [*_PINS, ("UserKnownHostsFile", quoted(pinned))]
    config = attempt / "ssh_config"
    lines = [f"{name} {value}" for name, value in options]
    lines += ["IdentitiesOnly yes", *(f"IdentityFile {quoted(path)}" for path in identities)]
    if agent:
        lines.append(f"IdentityAgent {quoted(agent.socket)}")
        for number, line in enumerate(agent.public, 1):
            public = attempt / f"fleet{number}.pub"
            write_private(public, line.strip() + "\n")
            lines.append(f"IdentityFile {quoted(public)}")
            if agent.sole:
                options.append(("IdentityFile", quoted(public)))
    if agent and agent.sole:
        only = ("IdentitiesOnly", "yes"), ("PreferredAuthentications", "publickey"), ("PKCS11Provider", "none")
        options += [*only, ("IdentityAgent", quoted(agent.socket))]
    lines += ["ServerAliveInterval 15", "ServerAliveCountMax 4", ""]
    write_private(config, "\n".join(lines))
    (attempt / "c").mkdir(mode=0o700)
    wrapper = attempt / "ssh"
    script = _SSH.format(
        ssh=shlex.quote(_found("ssh")),
        config=shlex.quote(str(config)),
        pins=" ".join(f"-o {shlex.quote(f'{name}={value}')}" for name, value in options),
        control_glob=shlex.quote(str(attempt / "c")),
        control_path=shlex.quote(_escaped(attempt / "c")),
        sole=_SOLE if agent and agent.sole else "",
    )
    write_private(wrapper, script, mode=0o700)
    for tool in ("sftp", "scp"):
        copy = _COPY.format(tool=shlex.quote(_found(tool)), ssh=shlex.quote(str(wrapper)))
        write_private(attempt / tool, copy, mode=0o700)
    return {f"ansible_{tool}_executable": str(attempt / tool) for tool in ("ssh", "sftp", "scp")}


def quoted(path: Path) -> str:
    """The path as one argument of an ssh option: % doubled, in quotes; raises WrongUsage when that can't be."""
    return f'"{_escaped(path)}"'


def identity(name: str, *, outside: Path | None = None) -> Path:
    """The private key file that a person named, past every link.

    Raises ExocompError when ssh would silently pass over it, WrongUsage when it is none of a person's but lies in
    `outside`, the data dir, or is a file of the kernel.
    """
    path = Path(os.path.realpath(name))
    if any(path.is_relative_to(place) for place in (*_NO_FILES, *([outside.resolve()] if outside else []))):
        raise WrongUsage(
            f"--ssh-identity {name}: no job is shown what lies in {path.parent}", hint="name a private key file"
        )
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ExocompError(
            f"--ssh-identity {name}: {error.strerror}", hint="name a private key file that exocomp serve can read"
        ) from None
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise ExocompError(f"--ssh-identity {name}: not a regular file", hint="name one private key file")
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        raise ExocompError(
            f"--ssh-identity {name}: its mode {status.st_mode & 0o777:04o} lets others read it, so ssh ignores it",
            hint=f"chmod 600 {shlex.quote(name)}",
        )
    return path


def write_private(path: Path, text: str, *, mode: int = 0o600) -> None:
    """A new file of exactly this mode."""
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "w", encoding="utf-8"
    ) as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)


def _escaped(path: Path) -> str:
    text = str(path)
    # ssh expands ${NAME} in these options and knows no escape for it; old versions know none for " either.
    if bad := next((part for part in ("${", '"', "\\", "\n") if part in text), None):
        raise WrongUsage(f"ssh can't be given the path {text!r}: it contains {bad!r}", hint="use another directory")
    return text.replace("%", "%%")


def _found(tool: str) -> str:
    if path := shutil.which(tool, path=PATH) or shutil.which(tool):
        return path
    raise ExocompError(f"there is no {tool} on this machine", hint="install OpenSSH's client (openssh-client)")
