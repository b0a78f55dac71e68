"""The command line: nouns, loaded when used, and the one place where errors become lines and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from cyclopts import App, CycloptsError, Parameter, UnknownOptionError, UnusedCliTokensError

from exocomp.cli import output
from exocomp.cli.wording import NO_DELIMITER, said
from exocomp.errors import ExocompError, WrongUsage

NOUNS = {  # where it is written; its line in the list of commands
    "serve": ("serve:serve", "Run the daemon in the foreground."),
    "workspace": ("workspace:app", "Register OpenTofu/Terraform root modules, plan, apply and destroy them."),
    "provision": ("provision:app", "The whole chain: apply, wait for ssh, onboard, configure."),
    "handoff": ("handoff:app", "The short chain: apply, configure."),
    "playbook": ("playbook:app", "Run one play over an inventory; vendor what plays need; rules that start plays."),
    "schedule": ("schedule:app", "Start plays, applies and plans at fixed times."),
    "approval": ("approval:app", "What plans ask before they are applied, and the decision."),
    "job": ("job:app", "Single jobs of the chains: list, show, logs, cancel."),
    "host": ("host:app", "Every host and how far it has come; pin host keys."),
    "inventory": ("inventory:app", "Standing inventories and their generations; add your own."),
    "events": ("events:events", "What happened, oldest first."),
    "fleet-key": ("fleet_key:app", "The key that the fleet trusts."),
    "config": ("config:app", "Settings and where each came from."),
}
EXIT_CODES = """\
0    done
1    the work failed
2    wrong usage; nothing was changed
3    no daemon answers on the socket
4    it waits for an approval (--wait --no-block), or the caller may not do this
5    a named thing does not exist
6    conflict: it exists, changed meanwhile, or is in use
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
        shown = "\n" if output.is_terminal(sys.stderr) else ""  # the terminal's own ^C
        output.note(f"{shown}interrupted")
        return DETACHED
    except BrokenPipeError:
        # Nothing more can be printed; the interpreter would try once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _run(tokens: list[str]) -> int:
    app = make_app(listing=not any(token in NOUNS for token in tokens[:2]))
    try:
        result = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        words = " ".join(["exocomp", *(error.command_chain or ())])
        hint = f"see `{words} --help`"
        if _takes_play(error.app) and isinstance(error, UnknownOptionError | UnusedCliTokensError):
            hint = f"the playbook and the flags of its play stand after `--`: {hint}"
        raise WrongUsage(said(error), hint=hint) from None
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    return result if isinstance(result, int) else 0


def _takes_play(app: App | None) -> bool:
    return app is not None and app.end_of_options_delimiter == NO_DELIMITER


def make_app(*, listing: bool = False) -> App:
    """`listing`: only the list of commands may be asked for, so that none has to tell its own help."""
    app = App(
        name="exocomp",
        help="From a finished apply to machines that are onboarded, configured and stay converged.",
        version=_version,
        default_parameter=Parameter(negative=(), show_default=_telling),
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
    )
    for noun, (where, says) in NOUNS.items():
        own_help = not where.endswith(":app")
        app.command(f"exocomp.cli.{where}", name=noun, help=None if own_help and not listing else says)
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


def _telling(default: object) -> str | None:
    """A default as the help shows it; that one is off or empty goes without saying."""
    return None if default in (None, False, ()) else str(default)


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


if __name__ == "__main__":
    sys.exit(main())
