"""Adds the operator's page to the application of the API."""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from lycosa.page.history import CrawlHistory
from lycosa.page.reading import reading_routes
from lycosa.page.steering import steering_forms


def add_page(app: FastAPI) -> None:
    """Add the pages and their files."""
    history = CrawlHistory(app.state.service)
    with suppress(RuntimeError):  # without a loop, the first look at the charts starts it
        history.start()
    app.include_router(reading_routes(history))
    app.include_router(steering_forms())
    folder = Path(str(files("lycosa.page"))) / "static"
    app.mount("/static", StaticFiles(directory=folder), "static")
