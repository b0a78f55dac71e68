"""Mailbox and actor: bounded, answers, refusals, and the answer of an actor that died."""

from __future__ import annotations

import pytest
import trio

from exocomp.actors.base import Actor, Mailbox
from exocomp.errors import ActorGone, NotFound


class Echo(Actor[str]):
    async def handle(self, message: str) -> str:
        if message == "boom":
            raise ValueError(message)
        if message == "no":
            raise NotFound("no such thing")
        return message.upper()


async def test_an_actor_answers_and_a_refusal_is_an_answer() -> None:
    echo = Echo()
    async with trio.open_nursery() as nursery:
        await nursery.start(echo.run)
        assert await echo.mailbox.ask("a") == "A"
        with pytest.raises(NotFound, match="no such thing"):
            await echo.mailbox.ask("no")
        assert await echo.mailbox.ask("b") == "B"
        nursery.cancel_scope.cancel()


async def test_an_actor_that_dies_leaves_no_one_waiting() -> None:
    echo = Echo()

    async def live() -> None:
        with pytest.raises(ValueError, match="boom"):
            await echo.run()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(live)
        with pytest.raises(ActorGone, match="no answer to str"):
            await echo.mailbox.ask("boom")


async def test_a_full_mailbox_makes_the_sender_wait_and_drops_nothing(autojump_clock: trio.abc.Clock) -> None:
    box: Mailbox[int] = Mailbox(2)
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            for number in range(5):
                await box.tell(number)

        nursery.start_soon(send)
        await trio.sleep(1)
        got = []
        async for message, _ in box:
            got.append(message)
            if message == 4:
                break
    assert got == [0, 1, 2, 3, 4]


async def test_mail_that_waits_outlives_its_actor() -> None:
    box: Mailbox[str] = Mailbox()
    await box.tell("a")
    async with trio.open_nursery() as nursery:
        await nursery.start(Echo(mailbox=box).run)
        assert await box.ask("b") == "B"
        nursery.cancel_scope.cancel()
