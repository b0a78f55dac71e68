"""Orders: a tofu job becomes the commands, environment and files of one attempt."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from exocomp import staging
from exocomp.approval import Gate
from exocomp.config import Layout, Settings
from exocomp.drivers.tofu import engine, hcl, marks, working_copy
from exocomp.drivers.tofu.environment import environment
from exocomp.drivers.tofu.files import make_private, read_record, write_record
from exocomp.drivers.tofu.variables import write_variables
from exocomp.drivers.tofu.working_copy import LOCK_FILE, WorkingCopy
from exocomp.drivers.tofu.workspace import check_variables
from exocomp.errors import Conflict, ExocompError, WrongUsage
from exocomp.model import Workspace
from exocomp.protocol.jobs import AttemptSpec, Command, TofuJob, Verb

PLAN = "home/plan"  # the saved plan, where the engine may write
SHOWN = "plan.json"  # what it would do, as `show -json` prints it
OUTPUTS = "outputs.json"
BEFORE = "state-before.json"
EARLIER = "state-earlier.json"
AFTER = "state-after.json"
SOURCE = "source.json"  # what was staged: digest and git commit
LOCK_TIMEOUT = "10s"
GRACE_S = 120.0  # after SIGINT an engine waits for its providers and saves the state

_FLAGS = ("-input=false", "-no-color")


def prepare(job: TofuJob, layout: Layout, attempt: Path, settings: Settings, env: Mapping[str, str]) -> AttemptSpec:
    """Bring the working copy up to date and order the commands; `env` is the daemon's. Blocks on the disk.

    Raises WrongUsage or Conflict when the workspace can't be run as it is, ExocompError when the disk fails.
    """
    try:
        return _prepare(job, layout, attempt, settings, env)
    except OSError as error:
        what = f"cannot prepare workspace {job.workspace.name!r}: {error.strerror} ({error.filename})"
        raise ExocompError(what, hint="check space and permissions of the data dir, then run it again") from error


def _prepare(job: TofuJob, layout: Layout, attempt: Path, settings: Settings, env: Mapping[str, str]) -> AttemptSpec:
    workspace = job.workspace
    tool = engine.find(workspace.engine or settings.engine or None)
    if not Path(workspace.directory).is_dir():
        raise WrongUsage(
            f"module directory {workspace.directory} is gone", hint="put it back, or remove the workspace"
        )
    copy = working_copy.of(workspace, layout)
    found = working_copy.sync(copy, workspace, settings.stage_limit_mib << 20)
    module = _module(copy, workspace, tool)
    for folder in (copy.engine_dir, copy.plugins):
        make_private(folder)
    write_record(attempt / SOURCE, {"digest": found.digest, "commit": staging.head_commit(found.root)})
    flags = write_variables(workspace, module, attempt)
    fingerprint = _fingerprint(found, copy, tool)
    commands = [*([] if _is_initialised(copy, fingerprint) else _init(tool, copy, fingerprint))]
    if job.saved is None:
        commands += [*_plan(job.verb, tool, attempt, flags), *_gate(job.gate, tool, attempt)]
    elif _earlier(attempt):
        raise Conflict(
            "the approved plan was being applied when its attempt was lost, so it can't be applied again",
            hint="retry the workflow: it plans anew from what there is now, and asks again",
        )
    if job.verb is not Verb.PLAN and job.gate is not Gate.ALWAYS:
        commands += _apply(tool, attempt, flags if _has_ephemeral(module) else ())
    return AttemptSpec(
        commands=tuple(commands),
        env=environment(env, settings.pass_env, attempt, copy),
        cwd=str(copy.module),
        timeout_s=settings.job_timeout_s,
        grace_s=GRACE_S,
    )


def _module(copy: WorkingCopy, workspace: Workspace, tool: engine.Engine) -> hcl.Module:
    if not hcl.module_files(copy.module, tool.product):
        raise WrongUsage(f"{workspace.directory} holds no file that {tool.product} reads", hint="see --engine")
    if (unsaved := copy.module / "errored.tfstate").exists():
        raise Conflict(
            f"an earlier apply of workspace {workspace.name!r} could not save its state and left it in {unsaved}",
            hint=f"in {copy.module}, run `TF_DATA_DIR={copy.engine_dir} {tool.path} state push errored.tfstate`, "
            "then remove the file",
        )
    module = hcl.read_module(copy.module, tool.product)
    check_variables(workspace, module)
    return module


def _init(tool: engine.Engine, copy: WorkingCopy, fingerprint: str) -> Iterator[Command]:
    copy.initialised.unlink(missing_ok=True)
    yield Command(name="init", argv=(tool.path, "init", *_FLAGS))
    mark = ("initialised", str(copy.initialised), fingerprint, str(copy.module / LOCK_FILE))
    yield Command(name="initialised", argv=_marks(*mark))


def _plan(verb: Verb, tool: engine.Engine, attempt: Path, flags: tuple[str, ...]) -> Iterator[Command]:
    saved = str(attempt / PLAN)
    destroy = ("-destroy",) if verb is Verb.DESTROY else ()
    lock = f"-lock-timeout={LOCK_TIMEOUT}"
    yield Command(name="plan", argv=(tool.path, "plan", *_FLAGS, "-json", lock, *destroy, *flags, f"-out={saved}"))


def _gate(gate: Gate, tool: engine.Engine, attempt: Path) -> Iterator[Command]:
    if gate is Gate.NEVER:
        return
    saved = str(attempt / PLAN)
    yield Command(name="show", argv=(tool.path, "show", "-no-color", "-json", saved), stdout=SHOWN)
    if gate is Gate.DESTROYS:
        yield Command(name="gate", argv=_marks("gate", str(attempt / SHOWN)))


def _apply(tool: engine.Engine, attempt: Path, flags: tuple[str, ...]) -> Iterator[Command]:
    lock = f"-lock-timeout={LOCK_TIMEOUT}"
    yield Command(name="state", argv=_marks("state", tool.path, *_earlier(attempt)), stdout=BEFORE)
    yield Command(name="apply", argv=(tool.path, "apply", *_FLAGS, "-json", lock, *flags, str(attempt / PLAN)))
    yield Command(name="output", argv=(tool.path, "output", "-no-color", "-json"), stdout=OUTPUTS)
    yield Command(name="state-after", argv=_marks("state-after", tool.path), stdout=AFTER)


def _marks(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", marks.__file__, *arguments)


def _earlier(attempt: Path) -> tuple[str, ...]:
    """A copy of the note of the latest earlier attempt of this job that came as far as its apply.

    A copy, because no job sees another attempt's directory.
    """
    numbers = range(int(attempt.name) - 1, 0, -1) if attempt.name.isdigit() else range(0)
    notes = (read_record(attempt.parent / str(number) / BEFORE) for number in numbers)
    if not (note := next(filter(None, notes), None)):
        return ()
    write_record(attempt / EARLIER, note)
    return (str(attempt / EARLIER),)


def _has_ephemeral(module: hcl.Module) -> bool:
    # Applying a saved plan takes no variables, except that ephemeral ones, which no plan holds, must be given again.
    return any(variable.ephemeral for variable in module.variables.values())


def _fingerprint(found: staging.Survey, copy: WorkingCopy, tool: engine.Engine) -> str:
    """Changes whenever an init could do something else than the last one did."""
    texts = sorted(
        (path, entry.content)
        for path, entry in found.entries.items()
        if path.endswith(hcl.SUFFIXES) or path.endswith(LOCK_FILE)
    )
    whole = json.dumps([copy.relative, tool.path, tool.product, tool.version, texts])
    return hashlib.sha256(whole.encode()).hexdigest()


def _is_initialised(copy: WorkingCopy, fingerprint: str) -> bool:
    mark = read_record(copy.initialised)
    lock = marks.lock_digest(str(copy.module / LOCK_FILE))
    return mark == {"fingerprint": fingerprint, "lock": lock} and working_copy.is_installed(copy)
