"""The state of a URL and the reason for it: an answer in one sentence, and the facts behind it.

The answer is what the owner of the URL decided and stored. A refusal by a pure rule left only a
count. So a URL that was refused by one, or never found, is checked again by the crawl's present
settings, seeds and robots.txt.
"""

from __future__ import annotations

import re

from lycosa.base.urls.identity import InvalidUrl, hash8, join_url
from lycosa.inspect.committed_state import CrawlReader, UrlEntry
from lycosa.inspect.explain.facts import Explanation
from lycosa.inspect.explain.known_url import KnownUrl
from lycosa.inspect.explain.lookup import LinkSearch, found_on
from lycosa.inspect.explain.unknown_url import UnknownUrl
from lycosa.inspect.saved_settings import SavedSettings
from lycosa.state.kv.table_records import UrlRecord, prefix_end

_HASH = re.compile(r"[0-9a-fA-F]{16}")
_NO_SCHEME = re.compile(
    r"(?!https?:)[A-Za-z0-9.-]+\.[A-Za-z0-9-]+(?::[0-9]+)?(?:[/?#].*)?", re.DOTALL
)


def explain(
    reader: CrawlReader,
    saved: SavedSettings,
    asked: str,
    now: float,
    search: LinkSearch = found_on,
) -> Explanation:
    """The answer for a URL in any spelling or a ``urlHash``; ``now`` is wall time in seconds.

    ``search`` finds a link to a URL that has no record.
    """
    answer = Explanation(asked=asked)
    if _HASH.fullmatch(asked):
        entry = _by_hash(reader, bytes.fromhex(asked))
        answer.url_hash = asked.lower()
        if entry is None:
            return answer.set_verdict("unknown_hash", "No known URL has this hash.")
    else:
        try:
            url = saved.canonicalizer.canonical(
                f"http://{asked}" if _NO_SCHEME.fullmatch(asked) else asked
            )
        except InvalidUrl as error:
            # A text that is no URL is an answer too: the reader learns why it was never crawled.
            return answer.set_verdict(
                "not_a_url", f"This is not a URL that can be crawled: {error.detail}."
            )
        entry = reader.find_url(url)
        if entry is None:
            answer.url, answer.url_hash = url, hash8(url).hex()
            with reader.partition_view(reader.partition_of(url)) as view:
                return UnknownUrl(reader, saved, view, answer, now).run(search)
    answer.url, answer.url_hash = entry.url, entry.url8.hex()
    with reader.partition_view(entry.partition) as view:
        return KnownUrl(reader, saved, view, entry, answer, now).run()


def _by_hash(reader: CrawlReader, url8: bytes) -> UrlEntry | None:
    """Search all keys, because a record's key begins with its host."""
    for view in reader.partition_views():
        for key, _ in view.scan(b"U", prefix_end(b"U")):
            if key[9:] == url8:
                host = view.host_record(key[1:9])
                record: UrlRecord | None = view.url_record(key[1:9], url8)
                if host is not None and record is not None:
                    return reader.find_url(
                        join_url("https" if record.secure else "http", host.host, record.target)
                    )
    return None
