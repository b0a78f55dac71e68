"""Why ansible-galaxy failed: its output read into one sentence with the next step."""

from __future__ import annotations

import re
from collections.abc import Callable

from exocomp.errors import ExocompError
from exocomp.vendoring.installed import without_credentials

_AGAIN = "then vendor again; what was vendored before is still in use"
_OFFLINE = (
    "check the network and the proxy variables of the daemon, "
    "or carry archives here and name them as `source: ./x.tar.gz` with `type: file`"
)
_GIT_ACCESS = "check the address, and that the daemon's user may read it without being asked for a password"
_DOWNLOAD = "check the address in a browser or with curl"

_Said = tuple[str, str]
# Matched against the output with its line breaks as blanks (ansible wraps lines); the first that fits counts.
_PATTERNS: tuple[tuple[str, Callable[[re.Match[str]], _Said]], ...] = (
    (
        r'Failed to find required executable "?git"?',
        lambda _: ("git is not installed, and the requirements name a git repository", f"install git, {_AGAIN}"),
    ),
    (
        r"Mismatch artifact hash with downloaded file",
        lambda m: (
            f"{_downloading(m.string)} does not have the checksum that the Galaxy server names",
            "try again; if it stays so, tell whoever runs the server, or the proxy in between",
        ),
    ),
    (
        r"Unknown error when attempting to call Galaxy at '(?P<url>[^']*)': (?P<why>.+?)"
        r"(?=\s\[(?:ERROR|WARNING)|\sUnknown error|$)",
        lambda m: (f"the Galaxy server {m['url']} can't be reached: {_bare(m['why'])}", _OFFLINE),
    ),
    (
        r"\(HTTP Code: (?P<code>401|403), Message: (?P<why>[^)]*?)(?: Code: [^)]*)?\)",
        lambda m: (
            f"the Galaxy server refuses: HTTP {m['code']} {m['why']}",
            "give its token: ANSIBLE_GALAXY_SERVER_<NAME>_TOKEN in the daemon's environment, "
            "or an ansible.cfg beside the requirements",
        ),
    ),
    (
        r"Could not satisfy the following requirements: \* (?P<name>[\w.]+):(?P<version>\S+) \((?P<by>[^)]*)\)",
        lambda m: _not_found(m["name"], m["version"], m["by"]),
    ),
    (
        r"Got the candidate (?P<got>\S+) \([^)]*\) which didn't satisfy all of the following requirements: "
        r"\* (?P<want>\S+)",
        lambda m: (
            f"the source holds {m['got'].replace(':', ' ')}, which does not fit what is asked for: "
            f"{m['want'].replace(':', ' ')}",
            "correct the version in the requirements, or the source",
        ),
    ),
    (
        r"sorry, (?P<name>\S+) was not found on (?P<server>\S+?)\.(?:\s|$)",
        lambda m: (f"there is no role {m['name']} on {m['server']}", "correct its name in the requirements"),
    ),
    (
        r"- (?P<role>\S+) was NOT installed successfully: None \(HTTP Code: 404",
        lambda m: (f"Galaxy has no role {m['role']}", "correct its name in the requirements"),
    ),
    (
        r"the specified version \((?P<version>[^)]*)\) of (?P<name>\S+) was not found",
        lambda m: (f"the role {m['name']} has no version {m['version']}", "correct it in the requirements"),
    ),
    (
        r"Collection artifact at '(?P<path>[^']*)' is not a valid tar file",
        lambda m: (f"{m['path']} is not a tar archive", "build one with `ansible-galaxy collection build`"),
    ),
    (
        r"- (?P<role>\S+) was NOT installed successfully: the downloaded file does not appear to be a valid tar",
        lambda m: (f"the source of the role {m['role']} is not a tar archive", "name a .tar.gz of the role"),
    ),
    (
        r"- (?P<role>\S+) was NOT installed successfully: this role does not appear to have a (?:valid )?meta/main",
        lambda m: (f"the source of {m['role']} is no role: it has no proper meta/main.yml", "correct its source"),
    ),
    (
        r"Failed to switch a cloned Git repo `(?P<url>[^`]*)` to the requested revision `(?P<rev>[^`]*)`",
        lambda m: (f"{m['url']} has no version {m['rev']}", "name a tag, a branch or a commit that it has"),
    ),
    (
        r"- (?P<role>\S+) was NOT installed successfully: - command \S+ checkout (?P<rev>\S+) failed",
        lambda m: (
            f"the repository of the role {m['role']} has no version {m['rev']}",
            "name a tag, a branch or a commit that it has",
        ),
    ),
    (
        r"(?:(?:fatal|ERROR|ssh): (?P<why>.+?)(?=\s(?:fatal:|Please make|\[ERROR)).*?)?"
        r"Failed to clone a Git repository from `(?P<url>[^`]*)`",
        lambda m: (f"git can't clone {m['url']}: {m['why'] or 'see the address'}", _GIT_ACCESS),
    ),
    (
        r"- (?P<role>\S+) was NOT installed successfully: - command \S+ clone .*?(?:fatal|ERROR|ssh): (?P<why>.+?)"
        r"(?=\s(?:fatal:|Please make|\[ERROR)|$)",
        lambda m: (f"git can't clone the repository of the role {m['role']}: {m['why']}", _GIT_ACCESS),
    ),
    (
        r"Failed to download collection tar from '(?P<url>[^']*)': (?P<why>.+?)"
        r"(?=\sFailed to download|\s\[(?:ERROR|WARNING)|$)",
        lambda m: (f"can't download {m['url']}: {_bare(m['why'])}", _DOWNLOAD),
    ),
    (
        r"failed to download the file: (?P<why>.+?)\s(?=\[WARNING).*?- (?P<role>\S+) was NOT installed successfully",
        lambda m: (f"can't download the role {m['role']}: {_bare(m['why'])}", _DOWNLOAD),
    ),
    (
        r"Signatures were provided to verify (?P<name>\S+) but no keyring was configured",
        lambda m: (
            f"{m['name']} has signatures, but there is no keyring to check them by",
            "name one: ANSIBLE_GALAXY_GPG_KEYRING in the daemon's environment, or take the signatures out",
        ),
    ),
    (
        r"- (?P<role>\S+) was NOT installed successfully: (?P<why>.+?)(?=\s\[ERROR\]|\sERROR!|$)",
        lambda m: (f"the role {m['role']} can't be installed: {m['why']}", f"correct its entry, {_AGAIN}"),
    ),
    (
        r".*(?:\[ERROR\]:|ERROR!) (?P<why>.+)$",
        lambda m: (f"ansible-galaxy failed: {m['why']}", f"correct what it names, {_AGAIN}"),
    ),
)


def explain(what: str, output: str, code: int) -> ExocompError:
    """The error for a run that failed; `what` is collections or roles, `output` what it wrote to both streams."""
    flat = without_credentials(" ".join(output.split()))
    for pattern, say in _PATTERNS:
        if (match := re.search(pattern, flat)) is not None:
            said, hint = say(match)
            return ExocompError(said[:500], hint=hint)
    return ExocompError(
        f"ansible-galaxy ended with code {code} while it installed {what}: {flat[-300:] or 'it said nothing'}",
        hint=f"correct what it names, {_AGAIN}",
    )


def _not_found(name: str, version: str, by: str) -> _Said:
    who = "" if by == "direct request" else f" ({by})"
    if version == "*":
        return f"there is no collection {name} on the Galaxy server{who}", "correct its name in the requirements"
    return (
        f"there is no version {version} of the collection {name} on the Galaxy server{who}",
        "see which versions it has, and whether its name is right; a pre-release has to be named exactly",
    )


def _downloading(output: str) -> str:
    urls = re.findall(r"Downloading (\S+) to ", output)
    return urls[-1] if urls else "an archive"


def _bare(reason: str) -> str:
    found = re.search(r"<urlopen error (?:\[Errno -?\d+\] )?(.*?)>", reason)
    return found[1] if found else reason
