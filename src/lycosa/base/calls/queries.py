"""Questions about what a partition has stored, answered from its last commit.

A worker answers them on another thread through a view of its tables, within a time budget. The
same questions can be asked of the folder or the snapshots of a crawl that does not run. Lists are
read in pieces: ``after`` is the ``cursor`` of the piece before (empty = the beginning), and it
stays valid while the crawl runs.
"""

from __future__ import annotations

import msgspec


class _Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``within_s``: the caller waits so many seconds from the arrival of the question.

    After that the owner drops it without work. 0 sets no bound.
    """

    within_s: float = 0.0


class CountsQuery(_Question, frozen=True, tag=True):
    """Counters of the partition: as in ``lycosa status --json``, without lists of hosts."""


class HostsQuery(_Question, frozen=True, tag=True):
    """Hosts by name or by an order.

    ``search`` is a part of the name: with a leading dot, or as a whole registrable domain, it uses
    the index of reversed names; with a leading asterisk it is a part of a name in any case.
    ``sort`` is ``name``, ``queue``, ``wait`` or ``errors``. ``state`` restricts the list (empty =
    any).
    """

    search: str = ""
    sort: str = "name"
    state: str = ""
    after: str = ""
    most: int = 50


class HostQuery(_Question, frozen=True, tag=True):
    """One host: its state, delay with the sources of it, robots file and rules, queue, errors,
    last fetches, and the decisions of operators."""

    host: str


class HostUrlsQuery(_Question, frozen=True, tag=True):
    """The URLs of a host, in a state (empty = any)."""

    host: str
    state: str = ""
    after: str = ""
    most: int = 50


class UrlQuery(_Question, frozen=True, tag=True):
    """One URL, as ``lycosa explain --json`` shows it.

    ``url`` may be the ``id`` of a row (32 digits: the hashes of host and URL), or a hash of 16 or
    64 digits. A hash alone takes a search of all keys: ``after`` continues it.
    """

    url: str
    after: str = ""


class UrlStatesQuery(_Question, frozen=True, tag=True):
    """The states of URLs, in any spelling: a row with ``url`` as given and ``state`` for each that
    the crawl knows."""

    urls: list[str]


class CapturesQuery(_Question, frozen=True, tag=True):
    """The captures of a URL or of its hash, newest first."""

    url: str
    after: str = ""
    most: int = 50


class ContentQuery(_Question, frozen=True, tag=True):
    """A stored body: of the newest capture, or of the last one up to the wall time ``at``.

    With ``as_text`` its visible text. At most ``most_bytes`` are returned, from ``offset``.
    """

    url: str
    at: float = 0.0
    as_text: bool = False
    offset: int = 0
    most_bytes: int = 1 << 20


class DeadLettersQuery(_Question, frozen=True, tag=True):
    """Dead letters, of one reason or host if given."""

    reason: str = ""
    host: str = ""
    after: str = ""
    most: int = 50


class ChangesQuery(_Question, frozen=True, tag=True):
    """What changed, in the order of the partition's commits.

    ``read`` is, by generation and partition, the last number that the caller has; partitions that
    it lacks are read from the wall time ``since_s`` on, or from the beginning (0). ``changes`` are
    the ``Change`` values that are meant (empty = all). The rules of cursors are in
    ``inspect.queries.changed_list``.
    """

    read: dict[int, dict[int, int]] = {}
    since_s: float = 0.0
    changes: tuple[int, ...] = ()
    host: str = ""
    most: int = 100


class ListingsQuery(_Question, frozen=True, tag=True):
    """Sitemaps and feeds, of one host if given (its canonical name), in the order of their keys."""

    host: str = ""
    after: str = ""
    most: int = 50


class ActionsQuery(_Question, frozen=True, tag=True):
    """The log of operators' decisions, newest first."""

    after: str = ""
    most: int = 50


class ScopeQuery(_Question, frozen=True, tag=True):
    """How many waiting URLs a change of the scope would drop.

    ``present`` are the live settings in force, ``values`` those that are tried. The row is that of
    ``inspect.queries.scope_trial``.
    """

    present: dict[str, str] = {}
    values: dict[str, str] = {}
    after: str = ""


StateQuestion = (
    CountsQuery
    | HostsQuery
    | HostQuery
    | HostUrlsQuery
    | UrlQuery
    | UrlStatesQuery
    | CapturesQuery
    | ContentQuery
    | DeadLettersQuery
    | ActionsQuery
    | ChangesQuery
    | ListingsQuery
    | ScopeQuery
)


class Found(msgspec.Struct, frozen=True, tag=True):
    """The answer: ``rows`` is JSON, a list for lists and otherwise a list with one object or none.

    ``cursor`` continues a list (empty = it is complete). ``wall`` is the time of the commit from
    which it was read. ``is_partial`` says that the time budget ended the search, so rows may be
    missing. A list by name or by time has a ``cursor`` then, which continues the search. Hosts in
    another order and captures have none: the search for them begins again with each question.

    Every row of a list has ``order`` and ``cursor``: equal text, ascending in the order of the
    list, and the same for all partitions, so that their lists can be merged and cut anywhere. An
    order of hosts by ``queue``, ``wait`` or ``errors`` is from the time ``ordered_at`` (wall time,
    0 = from this commit), and ends at the hosts that are kept of it when ``is_cut``.
    """

    rows: bytes
    cursor: str = ""
    wall: float = 0.0
    is_partial: bool = False
    ordered_at: float = 0.0
    is_cut: bool = False


class ListedChange(msgspec.Struct, frozen=True):
    """A capture whose content is new, changed, gone or back.

    ``id`` is that of the URL in other lists. ``date`` is when the request began, ``noted`` when the
    change was, in seconds since 1970; ``noted`` never decreases within a partition. ``distance`` is
    the number of SimHash bits in which the text differs from that before. ``number`` counts the
    changes of the partition.
    """

    url: str
    id: str
    host: str
    change: str
    distance: int | None
    status: int
    date: float
    noted: int
    partition: int
    number: int


class FoundChanges(msgspec.Struct, frozen=True, tag=True):
    """Changes of one partition, which has ``generation`` imports behind it.

    The partition was read up to the number ``scanned``, noted at ``scanned_s`` (0 = no row was
    read), and there is no later one if it ``is_whole``. ``is_imported_over``: all rows from before
    the last import were passed. ``is_lost``: rows that the caller has not read were dropped.
    ``is_ahead``: the caller has read further than the partition goes.
    """

    rows: list[ListedChange]
    generation: int = 0
    scanned: int = 0
    scanned_s: int = 0
    is_whole: bool = True
    is_imported_over: bool = True
    is_lost: bool = False
    is_ahead: bool = False


class ContentFound(msgspec.Struct, frozen=True, tag=True):
    """A piece of a stored body. ``about`` is JSON: the row of the capture, with its URL and time.

    ``total_bytes`` is the length of the whole, negative when there is no such capture.
    """

    about: bytes
    body: bytes = b""
    total_bytes: int = -1
    media_type: str = ""
