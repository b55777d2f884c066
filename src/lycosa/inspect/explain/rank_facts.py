"""Facts about the ranks of a URL and of its host, and where they are from."""

from __future__ import annotations

from lycosa.inspect.committed_state import CrawlReader, UrlEntry
from lycosa.inspect.explain.facts import Explanation
from lycosa.stages.admit.linking_sites import is_exact, linking_sites
from lycosa.stages.frontier.ranking import rank_of_host
from lycosa.stages.frontier.visit_state import VisitRecord
from lycosa.state.objects.object_errors import ObjectError
from lycosa.state.ranks.rank_results import RanksError
from lycosa.state.seen.hash_files import HashFileDamaged


def rank_facts(
    answer: Explanation, reader: CrawlReader, entry: UrlEntry, host: VisitRecord
) -> None:
    """Add what the authority of the host is, and the rank of the page, by the last commit."""
    host_rank = -1
    digest, read = reader.ranks, reader.origin.ranks
    if digest and read is not None:
        try:
            found, file = read(digest, entry.partition)
        except (RanksError, HashFileDamaged, ObjectError, OSError) as error:
            answer.add_fact("ranks", digest, f"{digest[:12]} cannot be read: {error}")
        else:
            answer.add_fact("ranks", digest, f"{found.source} (priority.ranks {digest[:12]})")
            page_rank = file.page_rank(entry.url8)
            host_rank = rank_of_host(file, entry.host8, host.host)
            if page_rank >= 0:
                answer.add_fact("page_rank", page_rank, _quantile(page_rank, "pages"))
            if host_rank >= 0:
                answer.add_fact("host_rank", host_rank, _quantile(host_rank, "hosts"))
    number = linking_sites(host.linking)
    if host_rank < 0:
        text = f"{host.importance:.2f}"
        if number:
            about = "" if is_exact(host.linking) else "about "
            text += f"; {about}{number:,} other sites, or hosts of the same site, link to its host"
        answer.add_fact("authority", round(host.importance, 3), text)
    answer.add_fact("linking_hosts", number or None, "")


def _quantile(rank: int, what: str) -> str:
    return f"{rank} of 255: above {rank / 255:.1%} of the {what} with ranks"
