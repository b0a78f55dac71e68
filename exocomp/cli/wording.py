"""The command line's parser: its refusals in the house's words, and its mark for what stands after `--`."""

from __future__ import annotations

from cyclopts import CycloptsError, UnusedCliTokensError

# The parser of a command whose play stands after `--`: it leaves that mark alone, as the name of a parameter.
NO_DELIMITER = ""


def said(error: CycloptsError) -> str:
    """One sentence without a full stop, beginning small."""
    if isinstance(error, UnusedCliTokensError):
        return f"too many arguments: {' '.join(map(repr, error.unused_tokens or ()))}"
    error.verbose = False
    text = str(error)
    if text.endswith("..."):  # a list of commands that was cut short; the help that the hint names has all
        text = text.partition(" Available commands: ")[0]
    return text[:1].lower() + text[1:].rstrip(".") if text[1:2].islower() else text.rstrip(".")
