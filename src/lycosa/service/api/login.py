"""The session of the operator's page: a form takes a token, and a cookie stands for it.

The cookie is sent to this server only, never with requests that another site causes
(``SameSite=Strict``), and no script can read it (``HttpOnly``).
"""

from __future__ import annotations

import time
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from lycosa.service.api.access_log import AccessLog
from lycosa.service.api.gate import session_cookie
from lycosa.service.api.tokens import SESSION_S, Tokens

_FORM = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Lycosa: log in</title>
<meta name="viewport" content="width=device-width"></head>
<body><main><h1>Lycosa</h1>
<form method="post" action="/login"><p>{note}</p>
<p><label>Token <input type="password" name="token" autocomplete="current-password" required
autofocus></label> <button>Log in</button></p></form></main></body></html>
"""
_POLICY = "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"


def login_routes(tokens: Tokens, log: AccessLog, cookie: str, is_secure: bool) -> APIRouter:
    """The form, its answer, and the end of the session, whose cookie has the name ``cookie``.

    ``is_secure``: clients come over TLS.
    """
    router = APIRouter(include_in_schema=False)

    def form(note: str, status: int) -> Response:
        headers = {"content-security-policy": _POLICY, "cache-control": "no-store"}
        return HTMLResponse(_FORM.format(note=note), status, headers)

    @router.get("/login")
    async def show_form() -> Response:
        return form("Enter a token of this crawl's interface.", 200)

    @router.post("/login")
    async def log_in(request: Request) -> Response:
        fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=5)
        secret = fields.get("token", [""])[0].strip()
        if tokens.are_none:
            return RedirectResponse("/", 303)
        client = tokens.client_of(secret)
        # The same answer for every wrong secret, and the gate limits how often it is asked for.
        if client is None:
            log.note_failed_login()
            return form("There is no such token.", 403)
        log.note_login(client.name)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            cookie,
            tokens.begin_session(secret, time.time()),
            max_age=int(SESSION_S),
            path="/",
            secure=is_secure,
            httponly=True,
            # A form on a page of another site cannot act with this session (RFC 6265bis section
            # 5.2).
            samesite="strict",
        )
        return answer

    @router.post("/logout")
    async def log_out(request: Request) -> Response:
        session = session_cookie(request.headers.get("cookie", ""), cookie)
        if (client := tokens.end_session(session, time.time())) is not None:
            log.note_logout(client.name)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(cookie, path="/", secure=is_secure, httponly=True, samesite="strict")
        return answer

    return router
