"""Parameters that identify a visitor and not a resource: session ids and campaign tracking.

There are two tiers, because a wrong match loses a page. A name that only session software uses
matches with any value. A name that sites also use for other things (``sid``, ``session``) matches
only with a value that looks random.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SURE_NAMES = (
    "phpsessid jsessionid jsessionidsso cfid cftoken zenid oscsid xtcsid osssid sesskey phpsession"
    " php_session_id asp.net_sessionid aspsessionid ci_session wpsession"
)
_MAYBE_NAMES = (
    "sid session sessid sessionid session_id session-id sess s_id _session_id session_key"
    " sessionkey usersession"
)
_TRACKING_NAMES = (
    "gclid gclsrc dclid gbraid wbraid gad_source gad_campaignid srsltid fbclid fb_action_ids"
    " fb_action_types fb_source msclkid yclid ysclid twclid ttclid li_fat_id igshid igsh mc_cid"
    " mc_eid mkt_tok _ga _gl _hsenc _hsmi __hstc __hssc __hsfp hsctatracking vero_id vero_conv"
    " oly_anon_id oly_enc_id _openstat wickedid rb_clickid epik _kx irclickid"
)
_TRACKING_PREFIXES = (
    "utm_",
    "mtm_",
    "pk_campaign",
    "pk_kwd",
    "piwik_campaign",
    "piwik_kwd",
    "matomo_campaign",
    "matomo_kwd",
)
_SURE, _MAYBE, _TRACKING = (
    frozenset(names.split()) for names in (_SURE_NAMES, _MAYBE_NAMES, _TRACKING_NAMES)
)
_ASP_COOKIE = re.compile(r"aspsessionid[a-z]{8}", re.IGNORECASE)
# Hexadecimal with both digits and letters, a UUID, or letters and digits that alternate. Words,
# dates and record numbers do not match.
_RANDOM = re.compile(
    r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{16,}"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?=[A-Za-z]*[0-9]+[A-Za-z]+[0-9]+[A-Za-z])[0-9A-Za-z]{20,}",
    re.IGNORECASE,
)
_PATH_PARAMETER = re.compile(r";([A-Za-z0-9._-]+)=([^;/?]*)")
# ASP.NET without cookies writes the session as a separate path segment:
# /(S(lit3py55t21z5v55vlm25s55))/page.aspx
_ASP_NET_SEGMENT = re.compile(r"/\((?:[A-Z]\([0-9A-Za-z_-]{20,}\))+\)/", re.IGNORECASE)


def dropper(sessions: bool, tracking: bool) -> Callable[[str], bool]:
    """A function that says whether ``name=value`` is dropped under these options.

    It looks at the name first, because most parameters on the web are neither session nor tracking.
    """
    names = (_SURE if sessions else frozenset()) | (_TRACKING if tracking else frozenset())
    prefixes = (_TRACKING_PREFIXES if tracking else ()) + (("aspsessionid",) if sessions else ())
    maybe = _MAYBE if sessions else frozenset()

    def drops(parameter: str) -> bool:
        name = parameter.partition("=")[0].lower()
        if name in names or name in maybe or name.startswith(prefixes):
            return (sessions and is_session(parameter)) or (tracking and is_tracking(parameter))
        return False

    return drops


def is_session(parameter: str) -> bool:
    """Whether ``name=value`` (percent-normalised, as in the query) is a session id."""
    name, equals, value = parameter.partition("=")
    if not equals:
        return False
    name = name.lower()
    if name in _SURE:
        return True
    if name in _MAYBE:
        return _RANDOM.fullmatch(value) is not None
    return name.startswith("aspsessionid") and _ASP_COOKIE.fullmatch(name) is not None


def is_tracking(parameter: str) -> bool:
    """Whether ``name=value`` only tells where a visitor came from."""
    name = parameter.partition("=")[0].lower()
    return name in _TRACKING or name.startswith(_TRACKING_PREFIXES)


def without_path_sessions(path: str) -> str:
    """A path without ``;jsessionid=...`` and similar; other path parameters stay."""
    return _PATH_PARAMETER.sub(lambda found: "" if is_session(found[0][1:]) else found[0], path)


def may_have_session(url: str) -> bool:
    """Whether ``find_session`` might find something.

    A few substring searches, which spare the regular expressions for most URLs with parameters.
    """
    lower = url.lower()
    return (
        "sess" in lower
        or "sid" in lower
        or "(" in lower
        or "zenid" in lower
        or "cfid" in lower
        or "cftoken" in lower
        or "s_id" in lower
    )


def find_session(target: str) -> str:
    """The first session id in a path and query, as written there, or the empty string."""
    path, _, query = target.partition("?")
    if "(" in path and (segment := _ASP_NET_SEGMENT.search(path)):
        return segment[0].strip("/")
    if ";" in path:
        for found in _PATH_PARAMETER.finditer(path):
            if is_session(found[0][1:]):
                return found[0][1:]
    return (
        next((parameter for parameter in query.split("&") if is_session(parameter)), "")
        if query
        else ""
    )
