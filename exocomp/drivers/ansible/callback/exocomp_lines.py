"""Ansible callback: one JSON line for each thing that happens in a play, in the file named by EXOCOMP_PROGRESS.

Loaded by ansible-core (2.17 and later) by path, in ansible's own process; exocomp never imports it.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
    name: exocomp_lines
    type: aggregate
    short_description: writes what happens as JSON lines
    description: One JSON object a line, in the file that the environment variable EXOCOMP_PROGRESS names.
"""

LONGEST = 400  # characters of a message
_JUST_A_CODE = ("non-zero return code", "MODULE FAILURE", "Module result deserialization failed")
_NOISE = (
    *("Shared connection to ", "Connection to ", "@@@", "@ ", "Offending ", "remove with:", "ssh-keygen -f"),
    *("IT IS POSSIBLE", "Someone could be", "It is also possible", "Please contact", "Add correct host key"),
)


def _guarded(method: Callable[..., None]) -> Callable[..., None]:
    """A record that can't be written must not end a play: say it once, and be silent from then on."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self.disabled = True
            self._display.warning(f"exocomp_lines stopped at {method.__name__}: {error!r}")

    return guarded


def _part(result: Any, name: str) -> Any:
    """`host`, `task` or `result` of a task result; they are private attributes before ansible-core 2.19."""
    return getattr(result, name) if hasattr(result, name) else getattr(result, f"_{name}")


def _one_line(text: object) -> str:
    lines = [line.strip() for line in str(text).splitlines()]
    told = " ".join(" ".join(line for line in lines if line and not line.startswith(_NOISE)).split())
    return told if len(told) <= LONGEST else told[: LONGEST - 1] + "…"


def _last_line(text: object) -> str:
    lines = [line.strip() for line in str(text).splitlines()]
    return next((line for line in reversed(lines) if line and not line.startswith(_NOISE)), "")


def _message(result: Mapping[str, Any], failed: bool) -> str:
    """What a person should read of a task's result; the last line of output when the module says only a code."""
    if "censored" in result:
        return "hidden by no_log"
    items = result.get("results")
    if failed and isinstance(items, list):
        bad = [
            item for item in items if isinstance(item, Mapping) and (item.get("failed") or item.get("unreachable"))
        ]
        if bad:
            return _one_line(f"{len(bad)} of {len(items)} item(s) failed, the first: {_message(bad[0], True)}")
    if failed and isinstance(modules := result.get("failed_modules"), Mapping) and modules:  # of gather_facts
        return _message(next(iter(modules.values())), True)
    message = _one_line(result.get("msg") or result.get("skip_reason") or "").removeprefix("Task failed: ")
    if "rc" in result and (not message or message.startswith(_JUST_A_CODE)):
        texts = (result.get(name) for name in ("module_stderr", "stderr", "module_stdout", "stdout"))
        output = next((line for text in texts if (line := _last_line(text or ""))), "")
        message = _one_line(f"exit code {result['rc']}{': ' * bool(output)}{output}" if failed else output)
    return message


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "exocomp_lines"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fd = -1
        self._began: dict[str, float] = {}
        path = os.environ.get("EXOCOMP_PROGRESS")
        if path is None:
            self.disabled = True
            return
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self.disabled = True
            self._display.warning(f"exocomp_lines: {path}: {error.strerror}")

    def _write(self, kind: str, **fields: Any) -> None:
        line = json.dumps({"e": kind, **fields}, ensure_ascii=False, default=str) + "\n"
        rest = line.encode("utf-8", "replace")
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    @_guarded
    def v2_playbook_on_play_start(self, play: Any) -> None:
        pattern = play.hosts if isinstance(play.hosts, str) else ",".join(str(part) for part in play.hosts)
        inventory = play.get_variable_manager()._inventory
        hosts = [host.name for host in inventory.get_hosts(play.hosts)]
        self._write("play", name=_one_line(play.get_name()), pattern=_one_line(pattern), hosts=hosts)

    @_guarded
    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self._task(task)

    @_guarded
    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._task(task)

    def _task(self, task: Any) -> None:
        self._began[task._uuid] = time.monotonic()
        meta = str(task.args.get("_raw_params", "")) if str(task.action).rpartition(".")[2] == "meta" else None
        some = bool(task.run_once) or meta is not None
        self._write("task", name=_one_line(task.get_name()), some=some, ends=(meta or "").startswith("end_"))

    def _host(self, state: str, result: Any, ignored: bool = False) -> None:
        task = _part(result, "task")
        began = self._began.get(task._uuid)
        fields = self._fields(state, result)
        for warning in _part(result, "result").get("warnings") or ():
            self._write("warning", host=fields["host"], msg=_one_line(warning))
        if ignored:
            fields["ignored"] = True
        if began is not None:
            fields["s"] = round(time.monotonic() - began, 3)
        self._write("host", **fields)

    def _fields(self, state: str, result: Any) -> dict[str, Any]:
        found, task = _part(result, "result"), _part(result, "task")
        message = _message(found, failed=state in ("failed", "unreachable"))
        return {
            "state": state,
            "host": _part(result, "host").get_name(),
            "task": _one_line(task.get_name()),
            "msg": message,
        }

    @_guarded
    def v2_runner_on_ok(self, result: Any) -> None:
        self._host("changed" if _part(result, "result").get("changed") else "ok", result)

    @_guarded
    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._host("failed", result, ignored=ignore_errors)

    @_guarded
    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._host("unreachable", result, ignored=bool(getattr(_part(result, "task"), "ignore_unreachable", False)))

    @_guarded
    def v2_runner_on_skipped(self, result: Any) -> None:
        self._host("skipped", result)

    @_guarded
    def v2_runner_retry(self, result: Any) -> None:
        found = _part(result, "result")
        self._write("retry", attempt=found.get("attempts"), of=found.get("retries"), **self._fields("failed", result))

    def _item(self, state: str, result: Any) -> None:
        found = _part(result, "result")
        hidden = "censored" in found or found.get("_ansible_no_log")
        item = "" if hidden else _one_line(found.get("_ansible_item_label", found.get("item", "")))
        self._write("item", item=item, **self._fields(state, result))

    @_guarded
    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._item("changed" if _part(result, "result").get("changed") else "ok", result)

    @_guarded
    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._item("failed", result)

    @_guarded
    def v2_runner_item_on_skipped(self, result: Any) -> None:
        self._item("skipped", result)

    @_guarded
    def v2_playbook_on_stats(self, stats: Any) -> None:
        for host in sorted(stats.processed):
            counts = stats.summarize(host)
            counts["failed"] = counts.pop("failures", 0)
            self._write("recap", host=host, **counts)
        self._write("end")
