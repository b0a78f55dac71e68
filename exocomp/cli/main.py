"""The command line: nouns, loaded when used, and the one place where errors become lines and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from cyclopts import App, CycloptsError, Parameter

from exocomp.cli import output
from exocomp.errors import ExocompError, WrongUsage

NOUNS = {  # where it is written; its help, unless that is a command's own
    "serve": ("serve:serve", None),
    "workspace": ("workspace:app", "Register OpenTofu/Terraform root modules, plan, apply and destroy them."),
    "provision": ("provision:app", "The whole chain: apply, wait for ssh, onboard, configure."),
    "handoff": ("handoff:app", "The short chain: apply, configure."),
    "job": ("job:app", "Single jobs of the chains: list, show, logs, cancel."),
    "host": ("host:app", "Pin host keys; show what is pinned."),
    "inventory": ("inventory:app", "Standing inventories and their generations."),
    "events": ("events:events", None),
    "fleet-key": ("fleet_key:app", "The key that the fleet trusts."),
    "config": ("config:app", "Settings and where each came from."),
}
EXIT_CODES = """\
0    done
1    the work failed
2    wrong usage
3    no daemon, or cannot connect to it
4    refused (not authorised), or waiting for an approval
5    not found
6    conflict: it exists, a key changed, a plan is stale, it is in use
130  detached by Ctrl-C; what was running goes on
"""
LEADING = {"--json": 0, "--output": 1, "--data-dir": 1, "--socket": 1}
DETACHED = 130
PIPE_CLOSED = 141  # 128 + SIGPIPE, as a shell reports it


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` is without the program's name."""
    for stream in (sys.stdout, sys.stderr):
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")
    tokens = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(_sorted(tokens))
    except ExocompError as error:
        output.complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        output.note("interrupted")
        return DETACHED
    except BrokenPipeError:
        # Nothing more can be printed; the interpreter would try once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _run(tokens: list[str]) -> int:
    app = make_app()
    try:
        result = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        error.verbose = False
        words = " ".join(["exocomp", *(error.command_chain or ())])
        raise WrongUsage(_first_small(str(error)), hint=f"see `{words} --help`") from None
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    return result if isinstance(result, int) else 0


def make_app() -> App:
    app = App(
        name="exocomp",
        help="From a finished apply to machines that are onboarded, configured and stay converged.",
        version=_version,
        default_parameter=Parameter(negative=()),
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
    )
    for noun, (where, says) in NOUNS.items():
        app.command(f"exocomp.cli.{where}", name=noun, help=says)
    app.command(_help(app), name="help")
    app.register_install_completion_command()
    return app


def _help(app: App) -> Callable[..., None]:
    def show(*words: str) -> None:
        """Help on a command, or on the topic exit-codes.

        For example:
            exocomp help provision run
            exocomp help exit-codes
        """
        if words == ("exit-codes",):
            output.line(EXIT_CODES.rstrip())
        else:
            app([*words, "--help"], exit_on_error=False, print_error=False, result_action="return_value")

    return show


def _version() -> str:
    from importlib.metadata import version

    return version("exocomp")


def _sorted(tokens: list[str]) -> list[str]:
    """Flags that every command takes may also stand before the noun: they are moved behind it."""
    for token in tokens:
        try:
            token.encode()
        except UnicodeEncodeError:
            raise WrongUsage(f"argument {token!r} is not UTF-8") from None
    lead = 0
    while lead < len(tokens) and (flag := tokens[lead].partition("="))[0] in LEADING:
        lead += 1 if flag[1] else 1 + LEADING[flag[0]]
    front, rest = tokens[:lead], tokens[lead:]
    end = rest.index("--") if "--" in rest else len(rest)
    return rest[:end] + front + rest[end:] if rest else front


def _first_small(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".") if text[1:2].islower() else text.rstrip(".")


if __name__ == "__main__":
    sys.exit(main())
