"""Commands (imperative) and their replies."""

from __future__ import annotations

import msgspec

from exocomp.model import Rule, RunOptions, Schedule, Workspace
from exocomp.protocol.approving import DecideApproval


class AddWorkspace(msgspec.Struct, frozen=True, kw_only=True, tag="add_workspace"):
    """`adopt_state` copies a state file that lies in the module directory into exocomp's care."""

    workspace: Workspace
    adopt_state: bool = False


class RemoveWorkspace(msgspec.Struct, frozen=True, kw_only=True, tag="remove_workspace"):
    """Refused while the state still holds resources or schedules and rules target it, unless `force`."""

    name: str
    force: bool = False


class StartWorkflow(msgspec.Struct, frozen=True, kw_only=True, tag="start_workflow"):
    """`kind` is a chain: provision, handoff, plan, apply or destroy of a workspace, or play over an inventory."""

    kind: str
    workspace: str | None = None
    inventory: str | None = None
    playbook: str | None = None
    options: RunOptions = RunOptions()


class AddInventory(msgspec.Struct, frozen=True, kw_only=True, tag="add_inventory"):
    """Take the content of `file` (absolute path) as the next generation of the inventory `name`."""

    name: str
    file: str


class RemoveInventory(msgspec.Struct, frozen=True, kw_only=True, tag="remove_inventory"):
    """Refused while schedules or rules target it, unless `force`."""

    name: str
    force: bool = False


class AddSchedule(msgspec.Struct, frozen=True, kw_only=True, tag="add_schedule"):
    schedule: Schedule


class RemoveSchedule(msgspec.Struct, frozen=True, kw_only=True, tag="remove_schedule"):
    name: str


class PauseSchedule(msgspec.Struct, frozen=True, kw_only=True, tag="pause_schedule"):
    name: str


class ResumeSchedule(msgspec.Struct, frozen=True, kw_only=True, tag="resume_schedule"):
    """What fell due while it was paused is not caught up."""

    name: str


class RunSchedule(msgspec.Struct, frozen=True, kw_only=True, tag="run_schedule"):
    """Fire now, beside its times; a fire that is refused or skipped is refused here as well."""

    name: str


class AddRule(msgspec.Struct, frozen=True, kw_only=True, tag="add_rule"):
    rule: Rule


class RemoveRule(msgspec.Struct, frozen=True, kw_only=True, tag="remove_rule"):
    name: str


class EnableRule(msgspec.Struct, frozen=True, kw_only=True, tag="enable_rule"):
    """What happened while it was disabled is not answered."""

    name: str


class DisableRule(msgspec.Struct, frozen=True, kw_only=True, tag="disable_rule"):
    name: str


class CancelWorkflow(msgspec.Struct, frozen=True, kw_only=True, tag="cancel_workflow"):
    id: str


class RetryWorkflow(msgspec.Struct, frozen=True, kw_only=True, tag="retry_workflow"):
    """Runs again from `from_step`, or from the first step that did not succeed."""

    id: str
    from_step: str | None = None


class ScannedKey(msgspec.Struct, frozen=True, kw_only=True):
    """`key` is the base64 blob, `fingerprint` as ssh-keygen -l prints it."""

    key_type: str
    key: str
    fingerprint: str


class ScanHost(msgspec.Struct, frozen=True, kw_only=True, tag="scan_host"):
    """`host` is a host of a standing inventory or an address; `port` overrides what the inventory says."""

    host: str
    port: int | None = None


class PinHost(msgspec.Struct, frozen=True, kw_only=True, tag="pin_host"):
    """Pin exactly `keys` under `name`; `rotate` replaces what is recorded, else only a first pin is made."""

    name: str
    keys: tuple[ScannedKey, ...]
    rotate: bool = False


class ForgetHost(msgspec.Struct, frozen=True, kw_only=True, tag="forget_host"):
    name: str


class ShowFleetKey(msgspec.Struct, frozen=True, kw_only=True, tag="show_fleet_key"):
    pass


class RotateFleetKey(msgspec.Struct, frozen=True, kw_only=True, tag="rotate_fleet_key"):
    """Begin a rotation, or go on with the one under way; the options are those of its plays."""

    ssh_identities: tuple[str, ...] = ()
    egress: tuple[int, ...] = ()


class VendorContent(msgspec.Struct, frozen=True, kw_only=True, tag="vendor_content"):
    """`requirements` is an absolute path; None for what the seeded runbooks need."""

    requirements: str | None = None


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    workflow: str


class Planned(msgspec.Struct, frozen=True, kw_only=True, tag="planned"):
    """A schedule stands; `fires_at` are its next three times in Unix seconds."""

    name: str
    fires_at: tuple[float, ...]


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    message: str = ""


class Scanned(msgspec.Struct, frozen=True, kw_only=True, tag="scanned"):
    """`verdict` is new, known, changed or partial (some types known, others new); `name` the known_hosts name."""

    name: str
    address: str
    port: int
    verdict: str
    offered: tuple[ScannedKey, ...]
    recorded: tuple[ScannedKey, ...]


class PendingKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key that a rotation leads to; `lacking` are the workspaces whose hosts are not through yet."""

    public_key: str
    fingerprint: str
    lacking: tuple[str, ...]


class FleetKeyShown(msgspec.Struct, frozen=True, kw_only=True, tag="fleet_key_shown"):
    """`public_key` is one authorized_keys line, `pending` there while a rotation is under way."""

    public_key: str
    fingerprint: str = ""
    pending: PendingKey | None = None


class Rotation(msgspec.Struct, frozen=True, kw_only=True, tag="rotation"):
    """Where the rotation to `fingerprint` stands: workflows under way, and workspaces that are through."""

    fingerprint: str
    workflows: tuple[str, ...]
    done: tuple[str, ...]


class VendoredEntry(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is collection or role, `digest` the sha256 of its installed tree."""

    kind: str
    name: str
    version: str
    source: str
    digest: str


class Vendored(msgspec.Struct, frozen=True, kw_only=True, tag="vendored"):
    """What jobs find from now on, in `directory`; it is empty when nothing was needed and nothing changed."""

    entries: tuple[VendoredEntry, ...]
    directory: str


AnyCommand = (
    AddWorkspace
    | RemoveWorkspace
    | StartWorkflow
    | CancelWorkflow
    | RetryWorkflow
    | AddInventory
    | RemoveInventory
    | AddSchedule
    | RemoveSchedule
    | PauseSchedule
    | ResumeSchedule
    | RunSchedule
    | AddRule
    | RemoveRule
    | EnableRule
    | DisableRule
    | DecideApproval
    | ScanHost
    | PinHost
    | ForgetHost
    | ShowFleetKey
    | RotateFleetKey
    | VendorContent
)
AnyReply = Started | Planned | Done | Scanned | FleetKeyShown | Rotation | Vendored
