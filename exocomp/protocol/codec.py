"""Frames of the websocket protocol: JSON text, one message a frame, several events in one message."""

from __future__ import annotations

import msgspec

from exocomp.errors import BY_CODE, ExocompError, WrongUsage
from exocomp.protocol.commands import AnyCommand, AnyReply
from exocomp.protocol.converging import Whole
from exocomp.protocol.events import Recorded
from exocomp.protocol.queries import AnyAnswer, AnyQuery

VERSION = 1
LARGEST = 16 << 20  # bytes of one frame from a client


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """First frame of both sides; `since` is the newest event's number when the daemon says it."""

    protocol: int = VERSION
    version: str = ""
    since: int = 0


class Do(msgspec.Struct, frozen=True, kw_only=True, tag="do"):
    id: int
    command: AnyCommand


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag="ask"):
    id: int
    query: AnyQuery


class Follow(msgspec.Struct, frozen=True, kw_only=True, tag="follow"):
    """Stream events with seq > `since`, and go on live."""

    id: int
    since: Whole = 0
    workflow: str | None = None
    workspace: str | None = None


class FollowLog(msgspec.Struct, frozen=True, kw_only=True, tag="follow_log"):
    """Stream one attempt's output from byte `offset`; without `live` it ends at the file's end.

    `stream` is "log" (text as the tool wrote it) or "progress" (decoded lines); `attempt` None is the latest.
    """

    id: int
    job: str
    attempt: Whole | None = None
    stream: str = "log"
    offset: Whole = 0
    live: bool = True


class Unfollow(msgspec.Struct, frozen=True, kw_only=True, tag="unfollow"):
    id: int


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag="reply"):
    id: int
    reply: AnyReply


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    id: int
    answer: AnyAnswer


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """`code` is the error's code (errors.py); `id` 0 refuses the connection itself."""

    id: int
    code: str
    what: str
    hint: str = ""


class EventsHappened(msgspec.Struct, frozen=True, kw_only=True, tag="events"):
    id: int
    events: tuple[Recorded, ...]


class LogChunk(msgspec.Struct, frozen=True, kw_only=True, tag="log"):
    """`offset` is the byte after this chunk: where to go on from."""

    id: int
    offset: int
    text: str


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """A subscription has nothing more to say."""

    id: int


FromClient = Hello | Do | Ask | Follow | FollowLog | Unfollow
FromDaemon = Hello | Reply | Answer | Refused | EventsHappened | LogChunk | Ended

_encoder = msgspec.json.Encoder()
_from_client = msgspec.json.Decoder(FromClient)
_from_daemon = msgspec.json.Decoder(FromDaemon)


def encode(frame: FromClient | FromDaemon) -> str:
    return _encoder.encode(frame).decode()


def decode_from_client(text: str | bytes) -> FromClient:
    """Raises WrongUsage naming what does not fit the protocol."""
    try:
        return _from_client.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        hint = "use one release of exocomp for both sides"
        raise WrongUsage(f"message not understood: {error}", hint=hint) from None


def decode_from_daemon(text: str | bytes) -> FromDaemon:
    return _from_daemon.decode(text)


def refusal(id: int, error: ExocompError) -> Refused:
    return Refused(id=id, code=error.code, what=error.what, hint=error.hint)


def error_of(refused: Refused) -> ExocompError:
    return BY_CODE.get(refused.code, ExocompError)(refused.what, hint=refused.hint)
