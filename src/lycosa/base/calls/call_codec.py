"""Calls and replies as MessagePack, which ``Inquiry.call_owner`` carries."""

from __future__ import annotations

import msgspec

from lycosa.base.calls.operator_decisions import (
    DeadLetterDecision,
    DecisionAnswer,
    HostDecision,
    ReparseDecision,
)
from lycosa.base.calls.outside_fetchers import GiveResults, LeaseUrls, ResultsTaken, UrlsLeased
from lycosa.base.calls.queries import ContentFound, Found, FoundChanges, StateQuestion
from lycosa.base.calls.renderer_calls import (
    CapturesFound,
    FindCaptures,
    GiveRender,
    OrderRenders,
    RendersLent,
    RenderTaken,
    TakeRenders,
)
from lycosa.base.calls.submission import AnnounceChanges, GivenVerdicts, GiveUrls, SiteNotice


class CallRefusal(msgspec.Struct, frozen=True, tag=True):
    """The owner refuses the call, and would refuse it again; ``reason`` is for its caller."""

    reason: str


Call = (
    GiveUrls
    | AnnounceChanges
    | SiteNotice
    | HostDecision
    | DeadLetterDecision
    | ReparseDecision
    | LeaseUrls
    | GiveResults
    | TakeRenders
    | FindCaptures
    | GiveRender
    | OrderRenders
    | StateQuestion
)
CallReply = (
    GivenVerdicts
    | DecisionAnswer
    | UrlsLeased
    | ResultsTaken
    | Found
    | FoundChanges
    | ContentFound
    | RendersLent
    | CapturesFound
    | RenderTaken
    | CallRefusal
)

encode_call = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder(Call).decode
encode_reply = msgspec.msgpack.Encoder().encode
decode_reply = msgspec.msgpack.Decoder(CallReply).decode
