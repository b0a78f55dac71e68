"""The chains by name: a fifth step is a file of its own and its name here."""

from __future__ import annotations

from exocomp.errors import WrongUsage
from exocomp.protocol.jobs import Verb
from exocomp.workflows.base import Step
from exocomp.workflows.configure import Configure, Play
from exocomp.workflows.onboard import Onboard
from exocomp.workflows.pin import Pin
from exocomp.workflows.rotate import Push, Retire
from exocomp.workflows.tofu import tofu
from exocomp.workflows.wait import Wait

PLAN, APPLY, DESTROY = tofu(Verb.PLAN), tofu(Verb.APPLY), tofu(Verb.DESTROY)

CHAINS: dict[str, tuple[Step, ...]] = {
    "provision": (APPLY, Wait(), Pin(), Onboard(), Configure()),
    "handoff": (APPLY, Configure()),
    "plan": (PLAN,),
    "apply": (APPLY,),
    "destroy": (DESTROY,),
    "rotate": (Push(), Retire()),
    "play": (Play(),),
}
WITH_PLAYBOOK = frozenset({"provision", "handoff", "play"})
OVER_INVENTORY = frozenset({"play"})  # the others are of a workspace


def chain(kind: str) -> tuple[Step, ...]:
    """The steps of a kind of workflow; raises WrongUsage."""
    if kind not in CHAINS:
        raise WrongUsage(f"no workflow is called {kind!r}", hint=f"one of {', '.join(CHAINS)}")
    return CHAINS[kind]


def step(kind: str, name: str) -> Step:
    """One step of a kind of workflow; raises WrongUsage naming the steps there are."""
    for each in chain(kind):
        if each.name == name:
            return each
    raise WrongUsage(f"{kind} has no step {name!r}", hint=f"its steps are {', '.join(s.name for s in chain(kind))}")
