"""What the forms of the pages do; each answers with a page that says what happened.

The gate of the API refuses forms of other sites before they come here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar
from urllib.parse import parse_qs, quote, urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from lycosa.base import calls
from lycosa.base.config.fields import fields as known_settings
from lycosa.base.config.live_settings import LIVE
from lycosa.base.config.policy_texts import POLICIES
from lycosa.base.messages.coordinator_messages import ClusterStatus
from lycosa.base.model.dead_letter import DeadLetterAction
from lycosa.cluster.coordinator.crawl_metrics import crawl_state
from lycosa.service.api.answers import CoordinatorSilent
from lycosa.service.api.problems import Problem
from lycosa.service.api.request_context import caller_name, service_of
from lycosa.service.api.service import CrawlService
from lycosa.service.page.rendering import page_response, shown

_Value = TypeVar("_Value")
_MAX_FIELDS = 200
_SHOWN = "shown."  # in the names of fields that say what the form showed
_MAX_SEEDS = 1000
_STATUS_S = 3.0


def steering_forms() -> APIRouter:
    """The addresses of the forms."""
    router = APIRouter(include_in_schema=False)
    forms = {
        "/do/crawl": _steer_crawl,
        "/do/host": _decide_host,
        "/do/letters": _decide_dead_letters,
        "/do/settings": _change_settings,
        "/do/seeds": _give_seeds,
        "/do/render": _order_render,
    }
    for path, endpoint in forms.items():
        router.add_api_route(path, shown(endpoint), methods=["POST"], response_model=None)
    return router


async def _steer_crawl(request: Request) -> Response:
    service, fields = service_of(request), await _fields(request)
    action, by, why = fields.get("action", [""])[0], caller_name(request), _why(fields)
    if action == "stop":
        await service.stop(by, why)
        await _await_status(service, lambda status: bool(status.end))
        return _seen("/", "stopping")
    if action not in ("pause", "resume"):
        raise Problem(422, "action: it must be pause, resume or stop")
    await service.pause(action == "pause", by, why)
    wanted = "paused" if action == "pause" else "running"
    await _await_status(service, lambda status: crawl_state(status) == wanted)
    return _seen("/", "paused" if action == "pause" else "resumed")


async def _await_status(service: CrawlService, is_new: Callable[[ClusterStatus], bool]) -> None:
    """Let the next page show the new state of the crawl, which is asked for once a second."""
    # The decision is taken. Only the page may show the state of before for a moment.
    with suppress(TimeoutError, CoordinatorSilent):
        async with asyncio.timeout(_STATUS_S):
            while not is_new(await service.watch.next_status()):
                pass


async def _decide_host(request: Request) -> Response:
    fields = await _fields(request)
    host, by = fields.get("host", [""])[0], caller_name(request)
    action = _given(fields, "action", partial(calls.read_action, calls.HostAction))
    delay_s = -1.0
    if action is calls.HostAction.DELAY:
        delay_s = _given(fields, "delay", lambda text: calls.read_delay(text.strip() or "default"))
    call = calls.HostDecision(
        calls.new_call("page"), by, host, action, _why(fields), delay_s=delay_s
    )
    answer = await service_of(request).decisions.decide_host(call)
    return _seen(f"/hosts/{quote(host, safe='')}", _changed(answer, "host"))


async def _decide_dead_letters(request: Request) -> Response:
    fields = await _fields(request)
    call = calls.DeadLetterDecision(
        fields.get("call", [""])[0][:100] or calls.new_call("page"),
        caller_name(request),
        _given(fields, "action", partial(calls.read_action, DeadLetterAction)),
        fields.get("hash", []),
        fields.get("reason", [""])[0],
        fields.get("host", [""])[0],
        _why(fields),
    )
    if not call.hashes and fields.get("all", [""])[0] != "yes":
        raise Problem(422, "no dead letter was chosen")
    answer = await service_of(request).decisions.decide_dead_letters(call)
    if not answer.is_complete:
        return page_response(request, "letters_rest.html", call=call, changed=answer.changed)
    return _seen("/dead-letters", _changed(answer, "letters"))


async def _change_settings(request: Request) -> Response:
    service, fields = service_of(request), await _fields(request)
    given = {key: _text(key, values[0].strip()) for key, values in fields.items() if key in LIVE}
    shown_before = {key: _text(key, fields.get(_SHOWN + key, [""])[0]) for key in given}
    # Compared with what this form showed, not with what is in force: another operator may have
    # changed what this one left alone.
    changed = {key: value for key, value in given.items() if value != shown_before[key]}
    back = "/policies" if fields.get("back", [""])[0] == "/policies" else "/settings"
    if not changed:
        return _seen(back, "same")
    version = (await service.status()).settings_version
    known = {key: shown_before[key] for key in changed}
    of_scope = {key: value for key, value in changed.items() if key.startswith("scope.")}
    if of_scope and not fields.get("tried"):
        trial = await service.try_scope(of_scope)
        if trial.dropped or trial.share < 1:
            return page_response(
                request,
                "scope_trial.html",
                line=trial.line(),
                reasons=trial.reasons,
                examples=trial.examples,
                changed=changed,
                known=known,
                why=_why(fields),
                back=back,
            )
    await service.change_settings(changed, caller_name(request), _why(fields), known)
    await _await_status(service, lambda status: status.settings_version > version)
    return _seen(back, "settings")


def _text(key: str, given: str) -> str:
    """The text of a setting in a form: that of the rules has one on each line."""
    if key != POLICIES:
        return given
    lines = (line.strip() for line in given.splitlines())
    return str(known_settings()[key].show(tuple(line for line in lines if line)))


async def _give_seeds(request: Request) -> Response:
    fields = await _fields(request)
    urls = [line.strip() for line in fields.get("urls", [""])[0].splitlines() if line.strip()]
    if not urls:
        raise Problem(422, "urls: give one URL on each line")
    if len(urls) > _MAX_SEEDS:
        raise Problem(422, f"urls: at most {_MAX_SEEDS:,} at a time; there are {len(urls):,}")
    verdicts = await service_of(request).seed(urls, by=caller_name(request))
    refused = [each for each in verdicts if each.reason]
    if refused:
        return page_response(request, "refused.html", refused=refused, given=len(urls))
    return _seen("/", "seeded")


async def _order_render(request: Request) -> Response:
    fields = await _fields(request)
    url, decisions = fields.get("url", [""])[0], service_of(request).decisions
    (verdict,) = await decisions.order_renders([url], caller_name(request), _why(fields))
    if verdict.reason:
        raise Problem(409, f"{url}: {verdict.reason}")
    return _seen(f"/urls?url={quote(url, safe='')}", "render")


async def _fields(request: Request) -> dict[str, list[str]]:
    try:
        text = (await request.body()).decode()
        return parse_qs(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise Problem(400, f"the form cannot be read: {error}") from error


def _why(fields: dict[str, list[str]]) -> str:
    """The remark for the log of actions."""
    return _given(fields, "why", calls.read_remark)


def _given(fields: dict[str, list[str]], name: str, read: Callable[[str], _Value]) -> _Value:
    """The value of a field. Raises ``Problem`` 422."""
    try:
        return read(fields.get(name, [""])[0])
    except ValueError as error:
        raise Problem(422, f"{name}: {error}") from error


def _changed(answer: calls.DecisionAnswer, notice: str) -> str:
    return notice if answer.changed else "none"


def _seen(path: str, notice: str) -> Response:
    """Let the browser get a page, so that loading it again repeats nothing."""
    assert not urlsplit(path).netloc
    return RedirectResponse(f"{path}{'&' if '?' in path else '?'}notice={notice}", 303)
