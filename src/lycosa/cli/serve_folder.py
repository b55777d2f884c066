"""``lycosa serve DIR``: a crawl on this machine without an end, controlled by HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lycosa.cli.cluster_parts import tell_line
from lycosa.cli.crawl_seeds import CrawlSeeds
from lycosa.cli.output import ExitCode, clean
from lycosa.cli.run_settings import crawl_settings
from lycosa.cli.serve_signals import handle_signals

if TYPE_CHECKING:
    from lycosa.base.config.render_section import RenderSection
    from lycosa.base.system.health_file import HealthFile
    from lycosa.processes.api_keeper import ApiListener
    from lycosa.processes.folder_service import FolderService
    from lycosa.service.api.api_job import ApiSettings


def run(
    folder: Path,
    seeds: CrawlSeeds,
    options: dict[str, Any],
    api: tuple[ApiSettings, ApiListener],
    health_file: Path | None,
) -> ExitCode:
    """Serve the folder until a signal; returns the exit code."""
    import time

    from lycosa.base.system.health_file import HealthFile
    from lycosa.base.system.memory_plan import memory_plan
    from lycosa.processes.folder_service import FolderService
    from lycosa.processes.seed_check import SeedCheck

    config = crawl_settings(folder, options, _tell).config
    memory_plan(config)  # too little memory is reported before anything is begun
    seeds.judge = SeedCheck(config, time.time()).refusal
    seeds.tell = _tell
    if config.upload.url:
        from lycosa.processes.upload_thread import check_place

        check_place(folder, config.upload)
    service = FolderService(folder, config, seeds, _tell, lambda: seeds.record_sources(folder))
    health = HealthFile(health_file)
    health.write(False, "starts")
    try:
        asyncio.run(_serve(service, api, health, config.render))
    finally:
        seeds.save_positions()
        health.remove()
    tell_line("the service ends; `lycosa serve` or `lycosa crawl` with the same folder resumes it")
    return ExitCode.FINISHED


def _tell(text: str) -> None:
    tell_line(clean(text))


async def _serve(
    service: FolderService,
    api: tuple[ApiSettings, ApiListener],
    health: HealthFile,
    render: RenderSection,
) -> None:
    from lycosa.processes.called_crawl import CalledCrawl
    from lycosa.processes.socket_folder import SocketFolder

    called: CalledCrawl | None = None

    def reload() -> None:
        if called is not None:
            called.reload()

    handle_signals(service.stop, reload)
    keeping = asyncio.create_task(health.keep(service.health))
    with SocketFolder() as sockets:

        async def open_doors() -> None:
            nonlocal called
            called = CalledCrawl(
                service.crawl, service, sockets.path, service.folder, _tell, render
            )
            service.keep_renderer = called.keep_renderer
            await called.open(*api)
            _tell(f"the crawl {service.folder} is served at {api[1].url}")

        try:
            await service.run(sockets, open_doors)
        finally:
            keeping.cancel()
            if called is not None:
                await called.close()
