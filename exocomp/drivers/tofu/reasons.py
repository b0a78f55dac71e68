"""Known failures of an engine: how one is recognised, and what it says to a person and to do next."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from exocomp.drivers.tofu.diagnostics import Problem

_Say = Callable[[list[Problem]], tuple[str, str]]


class Kind(msgspec.Struct, frozen=True):
    """`pattern` is searched in summary and detail; `say` gets all problems that match it."""

    pattern: re.Pattern[str]
    say: _Say


def explain(problems: tuple[Problem, ...]) -> tuple[str, str]:
    """(reason, hint) for the errors of one run, the first one leading; a hint may be empty."""
    first = problems[0]
    for kind in KINDS:
        if kind.pattern.search(first.text):
            return kind.say([problem for problem in problems if kind.pattern.search(problem.text)])
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{describe(first)}{more}", ""


def describe(problem: Problem) -> str:
    """`address: summary (file:line)`; a command's exit status is added, its output never."""
    status = re.search(r"exit status \d+", problem.detail)
    summary = " ".join(problem.summary.split()).rstrip(".")
    extras = [part for part in (status[0] if status else "", problem.where) if part]
    subject = f"{problem.address}: " if problem.address else ""
    return f"{subject}{summary}" + (f" ({', '.join(extras)})" if extras else "")


def _missing_variable(problems: list[Problem]) -> tuple[str, str]:
    found = [re.search(r'variable "([^"]+)"', problem.text) for problem in problems]
    names = sorted({match[1] for match in found if match})
    if not names:
        return describe(problems[0]), ""
    places = sorted({problem.where for problem in problems if problem.where})
    where = f" ({places[0]})" if places else ""
    flags = " ".join(f"--var {name}=VALUE" for name in names)
    plural = "variables" if len(names) > 1 else "variable"
    return (
        f"no value for required {plural} {', '.join(names)}{where}",
        f"register the workspace with {flags} or --var-file FILE, or declare a default",
    )


def _held_lock(problems: list[Problem]) -> tuple[str, str]:
    fields = dict(re.findall(r"^\s*(ID|Operation|Who|Created):\s*(.+?)\s*$", problems[0].detail, re.MULTILINE))
    if not fields.get("ID"):
        return "the state lock can't be had", "see the log for what its backend answered, then run it again"
    operation = fields.get("Operation", "").removeprefix("OperationType").lower() or "a run"
    return (
        f"the state is locked by {fields.get('Who', 'somebody')} since {fields.get('Created', 'an unknown time')} "
        f"({operation}, lock {fields['ID']})",
        "wait until that run has ended, then run it again; a lock whose owner is surely dead is removed where it was "
        "made, after looking at what its run left behind",
    )


def _moved_backend(problems: list[Problem]) -> tuple[str, str]:
    return (
        f"the module's backend changed, and its state is still in the earlier one: {describe(problems[0])}",
        "put the earlier backend block back; or move the state by hand and add the workspace under a new name",
    )


def _stale_plan(_: list[Problem]) -> tuple[str, str]:
    return (
        "the saved plan is stale: the state was changed by something else after it was planned; nothing was applied",
        "run it again for a new plan",
    )


def _not_installed(problems: list[Problem]) -> tuple[str, str]:
    return (
        f"a provider is not installed: {describe(problems[0])}",
        "the daemon must reach the provider's registry, or pass_env must let TF_CLI_CONFIG_FILE through to a mirror; "
        "check required_providers and .terraform.lock.hcl",
    )


def _no_module(problems: list[Problem]) -> tuple[str, str]:
    return (
        f"a module can't be installed: {describe(problems[0])}",
        "check its source: a local one must lie in the root, and the daemon must be able to reach a remote one",
    )


def _unsaved(problems: list[Problem]) -> tuple[str, str]:
    return (
        f"the state could not be saved: {describe(problems[0])}",
        "errored.tfstate in the workspace's working copy holds it; the next run says how to push it",
    )


def _no_login(problems: list[Problem]) -> tuple[str, str]:
    return describe(problems[0]), "name the credential's variable (TF_TOKEN_…, AWS_…) in the setting pass_env"


KINDS = tuple(
    Kind(re.compile(pattern, re.IGNORECASE), say)
    for pattern, say in (
        (r"^No value for required variable", _missing_variable),
        (r"error acquiring the state lock|error locking state", _held_lock),
        (r"saved plan is stale", _stale_plan),
        (r"failed to (save|persist) state", _unsaved),
        (
            r"backend (configuration changed|initialization required|type changed)|state migration"
            r"|(initialization|configuration) change|migrat\w+ .*state",
            _moved_backend,
        ),
        (
            r"required plugins are not installed|inconsistent dependency lock file|failed to install provider"
            r"|failed to query available provider|invalid provider registry host|could not load plugin",
            _not_installed,
        ),
        (
            r"^(module (not installed|not found|source has changed)|unreadable module|failed to download module"
            r"|error accessing remote module registry|invalid module source|local module path escapes)",
            _no_module,
        ),
        (r"required token could not be found|no valid credential sources", _no_login),
    )
)
