"""The project's ansible.cfg: where it is, and which of its choices outrank ours."""

from __future__ import annotations

import configparser
from pathlib import Path

NAME = "ansible.cfg"


class ProjectConfig:
    """Choices of a project's ansible.cfg; none of them when there is no such file or ansible would refuse it."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._parser = configparser.ConfigParser(inline_comment_prefixes=(";",), interpolation=None)
        if path is not None:
            try:
                self._parser.read_string(path.read_text("utf-8", errors="replace"))
            except configparser.Error:  # ansible-playbook reads it too, and says what is wrong
                self._parser.clear()

    @classmethod
    def of(cls, playbook: Path, project: Path) -> ProjectConfig:
        """The nearest ansible.cfg from the playbook's directory up to the project."""
        directory = playbook.parent
        while True:
            if (directory / NAME).is_file():
                return cls(directory / NAME)
            if directory in (project, directory.parent):
                return cls()
            directory = directory.parent

    def chooses(self, key: str, *sections: str) -> bool:
        """Whether one of the sections (default: `defaults`) sets the key."""
        return any(self._parser.has_option(section, key) for section in sections or ("defaults",))

    def paths(self, key: str) -> list[str]:
        """A path list of `defaults`, relative ones taken from the file's directory as ansible does."""
        if self.path is None:
            return []
        value = self._parser.get("defaults", key, fallback="")
        return [str(self.path.parent / part.strip()) for part in value.split(":") if part.strip()]
