"""What a renderer process is given."""

from __future__ import annotations

import msgspec

from lycosa.base.config.render_section import RenderSection


class RendererJob(msgspec.Struct, frozen=True):
    """The crawl to render for.

    ``name`` is for people. On one machine ``folder`` is the crawl folder and ``sockets`` the folder
    of the sockets of coordinator and workers; on a cluster ``cluster_file`` is the path of
    cluster.toml. ``pages`` is the number of pages at the same time that an operator gave this
    process (-1 = ``render.pages`` of the crawl, which may change while it runs).
    """

    name: str
    section: RenderSection
    folder: str = ""
    sockets: str = ""
    cluster_file: str = ""
    pages: int = -1


encode_renderer_job = msgspec.msgpack.Encoder().encode
decode_renderer_job = msgspec.msgpack.Decoder(RendererJob).decode
