"""The HTTP interface with the page: ``python -m lycosa.service.page.page_process FD``."""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from lycosa.service.api.api_process import run_api
from lycosa.service.api.app import problem_of
from lycosa.service.page.action_forms import steering_forms
from lycosa.service.page.chart_samples import CrawlHistory
from lycosa.service.page.rendering import error_page
from lycosa.service.page.view_pages import reading_routes


def add_page(app: FastAPI) -> None:
    """Add the pages and their files."""
    history = CrawlHistory(app.state.service)
    with suppress(RuntimeError):  # without a loop, the first look at the charts starts it
        history.start()
    app.include_router(reading_routes(history))
    app.include_router(steering_forms())
    folder = Path(str(files("lycosa.service.page"))) / "static"
    app.mount("/static", StaticFiles(directory=folder), "static")

    async def page_of_error(request: Request, error: Exception) -> Response:
        """An address that does not exist, for a browser: a page from which others are reached."""
        problem, path = problem_of(error), request.url.path
        if "text/html" in request.headers.get("accept", "") and not path.startswith("/api/"):
            return error_page(request, problem)
        return Response(problem.body(path), problem.status, problem.header_lines())

    app.add_exception_handler(HTTPException, page_of_error)


if __name__ == "__main__":
    run_api(add_page)
