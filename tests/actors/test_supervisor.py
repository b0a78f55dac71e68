"""The supervisor: order, reverse order, restart with back-off, escalation."""

from __future__ import annotations

import pytest
import trio

from exocomp.errors import WrongUsage
from exocomp.supervisor import Child, Escalated, Supervisor, single


def child(name: str, log: list[str], *, dies: int = 0, policy: str = "restart", restarted=None) -> Child:
    left = [dies]

    async def run(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        log.append(f"+{name}")
        task_status.started()
        try:
            if left[0]:
                left[0] -= 1
                await trio.sleep(0.01)
                raise RuntimeError(name)
            await trio.sleep_forever()
        finally:
            log.append(f"-{name}")

    return Child(name=name, run=run, policy=policy, restarted=restarted)


async def test_children_start_in_order_and_stop_in_reverse(autojump_clock: trio.abc.Clock) -> None:
    log: list[str] = []
    supervisor = Supervisor([child(name, log) for name in "abc"])
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)
        supervisor.stop()
    assert log == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def test_a_dead_child_is_restarted_and_its_mail_is_taken_up_again(autojump_clock: trio.abc.Clock) -> None:
    log: list[str] = []

    async def restarted() -> None:
        log.append("again")

    supervisor = Supervisor([child("a", log, dies=2, restarted=restarted)])
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)
        await trio.sleep(10)
        supervisor.stop()
    assert log == ["+a", "-a", "+a", "again", "-a", "+a", "again", "-a"]


@pytest.mark.parametrize(("policy", "dies"), [("escalate", 1), ("restart", 99)])
async def test_a_death_that_may_not_be_escalates(policy: str, dies: int, autojump_clock: trio.abc.Clock) -> None:
    log: list[str] = []
    supervisor = Supervisor([child("a", log, dies=dies, policy=policy), child("b", log)])
    with pytest.RaisesGroup(Escalated, flatten_subgroups=True):
        await supervisor.run()
    assert log[-1] == "-b"


async def test_a_child_that_refuses_to_start_is_not_tried_again_and_its_words_come_through() -> None:
    tries = []

    async def run(**_: object) -> None:
        tries.append(1)
        raise WrongUsage("the socket path is too long")

    with pytest.raises(ExceptionGroup) as group:
        await Supervisor([Child(name="gateway", run=run, policy="restart")]).run()
    escalated = single(group.value)
    assert isinstance(escalated, Escalated)
    assert isinstance(escalated.__cause__, WrongUsage)
    assert tries == [1]
