"""A partition's URL-seen: how it is opened in a crawl folder, and what it is rebuilt from.

It is separate from ``names``, because the supervisor needs the names of files but not numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from lycosa.base.config.sections import SeenSection
from lycosa.base.config.sections import SeenUrlsKind as SeenChoice
from lycosa.state.cold.whole_table import open_cold_records
from lycosa.state.folder.names import seen_file
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.table_records import known_key, prefix_end
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.seen.seen_port import Hashes, Mask, SeenUrls, hashes_of
from lycosa.state.seen.urls_bloom import BloomSeenUrls
from lycosa.state.seen.urls_sorted import SortedSeenUrls

_REBUILD_BATCH = 100_000


def open_seen(
    folder: Path, partition: int, section: SeenSection, table: KeyValue, max_delta: int = 1 << 18
) -> SeenUrls:
    """The chosen implementation of URL-seen.

    ``table`` confirms positive answers of a Bloom filter. ``max_delta`` is the number of hashes in
    memory before they are written to its file.
    """
    path = seen_file(folder, partition, section.urls)
    path.parent.mkdir(parents=True, exist_ok=True)
    if section.urls is SeenChoice.SORTED:
        return SortedSeenUrls(path, max_delta)
    confirm = _confirming(table) if section.bloom_confirm else None
    return BloomSeenUrls(path, section.bloom_urls, section.bloom_error, confirm, max_delta)


def known_hashes(table: KeyValue, store: ObjectStore | None = None) -> Iterator[Hashes]:
    """The hashes of all URLs of a partition, in batches: URL-seen is rebuilt from them.

    Some may repeat. ``store`` has the cold records of the crawl, if it can have any. Raises what
    ``ColdTable`` raises.
    """
    if (cold := open_cold_records(table, store)) is not None:
        yield from cold.hashes()
    batch: list[bytes] = []
    for key, _ in table.scan(b"U", prefix_end(b"U")):
        batch.append(key[9:])
        if len(batch) == _REBUILD_BATCH:
            yield hashes_of(batch)
            batch = []
    if batch:
        yield hashes_of(batch)


def _confirming(table: KeyValue) -> Callable[[Hashes], Mask]:
    """Return a check of hashes by the table.

    It needs an index from URL hash to host in the table, because a record's key begins with its
    host.
    """

    def confirm(hashes: Hashes) -> Mask:
        keys = [known_key(url8.tobytes()) for url8 in hashes.astype(">u8")]
        return np.array([value is not None for value in table.get_many(keys)], dtype=np.bool_)

    return confirm
