"""What a capture means for the next fetch of its URL, and what the record keeps for it.

A pure function of the record and the answer: a worker calls it, the entry of stored captures into a
state that lacks them, and the simulation.
"""

from __future__ import annotations

import msgspec

from lycosa.base.config.refetch_policies import class_of, find_policy
from lycosa.base.config.sections import RefetchSection
from lycosa.base.listing_kind import NOT_LISTED
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.model.refetch_cell import cell_of
from lycosa.base.model.url_state import History
from lycosa.base.reasons import Reason
from lycosa.stages.schedule.change_rate import (
    ChangeFinding,
    add_observation,
    estimate_rate,
    finding_in,
    seed_observations,
)
from lycosa.stages.schedule.fetch_outcome import Meaning
from lycosa.stages.schedule.page_change import has_failed, is_changed, is_gone
from lycosa.stages.schedule.priority import COPY_WEIGHT
from lycosa.stages.schedule.refetch import gone_interval, kept_interval, next_interval


class FoundContent(msgspec.Struct, frozen=True, gc=False):
    """What a fetch found.

    ``at`` is the wall time of the answer, ``digest`` the SHA-1 of the payload, ``text_digest`` that
    of what a reader sees (``page_change``), ``simhash`` the fingerprint of the text (0 = none).
    ``status`` is that of the answer; ``was_gone`` says that the URL was known as gone, ``is_copy``
    that another page has the same content or nearly the same. ``unchanged_since`` is the wall time
    since which a trusted date says that it has not changed (0 = nothing, ``dated_evidence``).
    ``is_check`` says that the fetch came early, to check what the one before had found.
    """

    meaning: Meaning
    at: float
    digest: bytes
    text_digest: bytes
    simhash: int = 0
    status: int = 0
    was_gone: bool = False
    unchanged_since: float = 0.0
    is_copy: bool = False
    is_check: bool = False


class RefetchPlan(msgspec.Struct, frozen=True, gc=False):
    """The next fetch: ``interval_s`` until it (0 = none), and fields of ``History``.

    ``changed`` says whether the content differs from that of the fetch before, ``is_gone`` that
    there was content and is none now.
    """

    interval_s: float
    changed: bool
    observations: bytes = b""
    cell: int = 0
    policy: int = 0
    is_gone: bool = False

    def kept_in(self, history: History, before: History, text_digest: bytes) -> History:
        """The history of the fetch with this plan; ``before`` is that of the fetch before."""
        changed = self.changed
        return msgspec.structs.replace(
            history,
            changes=before.changes + (changed and before.fetches > 0),
            interval_s=int(self.interval_s),
            forwards=0,
            text_digest=text_digest,
            observations=self.observations,
            cell=self.cell,
            policy=self.policy,
        )


def plan_refetch(
    section: RefetchSection,
    url: str,
    old: History,
    found: FoundContent,
    weight: float,
    formats: int,
    is_once: bool = False,
    look: float | None = None,
    listed: int = NOT_LISTED,
) -> RefetchPlan:
    """The plan after a capture; ``old`` is the record's history before it.

    ``weight`` is that of the page (``priority.weigher``), which its policy multiplies, and
    ``COPY_WEIGHT`` that of a copy. In ``formats`` without observations there are none
    (``model.compatibility``). A page with ``is_once`` is not fetched again, as a licence. ``look``
    is the price by which the next look at the page is scheduled (``PriceInForce.look_at``),
    ``None`` for that of the settings. ``listed`` is the mark in the page's record.
    """
    changed = is_changed(old, found.meaning, found.digest, found.text_digest)
    observations, cell, number = b"", 0, 0
    if formats >= LATE_FIELDS:
        observations, number = _observations(old, found, changed), class_of(section, url, listed)
    if is_once:
        return RefetchPlan(0.0, changed, observations, policy=number)
    if found.meaning is Meaning.FAILED:
        gone = formats >= LATE_FIELDS and is_gone(old, found.status, found.was_gone)
        is_first, before_s = not found.was_gone, float(old.interval_s)
        if gone:
            interval_s = gone_interval(section, url, before_s, is_first=is_first, listed=listed)
        else:
            interval_s = 0.0
        return RefetchPlan(interval_s, changed, observations, policy=number, is_gone=gone)
    if formats >= LATE_FIELDS:
        weight *= find_policy(section, url, listed).weight
        weight *= COPY_WEIGHT if found.is_copy else 1.0
        cell = cell_of(estimate_rate(observations), weight)
    if found.is_check and not changed:
        interval_s = kept_interval(section, url, float(old.interval_s), cell, look, listed)
        return RefetchPlan(interval_s, changed, observations, cell, number)
    interval_s = next_interval(
        section,
        url,
        float(old.interval_s),
        changed=changed and not _is_immaterial(observations),
        # The interval of a page that was gone says nothing about how often it changes.
        is_first=found.was_gone or old.fetches == 0,
        cell=cell,
        look=look,
        listed=listed,
    )
    return RefetchPlan(interval_s, changed, observations, cell, number)


def plan_missing(
    section: RefetchSection,
    url: str,
    old: History,
    plan: RefetchPlan,
    reason: Reason,
    listed: int = NOT_LISTED,
) -> RefetchPlan:
    """The plan of a page that answers as paths that do not exist, and never had other content.

    ``plan`` is the one by its content, ``reason`` that of its record before this fetch. It is
    looked at as rarely as a page that is gone.
    """
    is_first = reason is not Reason.LIKE_MISSING
    before_s = float(old.interval_s)
    interval_s = gone_interval(section, url, before_s, is_first=is_first, listed=listed)
    return msgspec.structs.replace(plan, interval_s=interval_s)


def _observations(old: History, found: FoundContent, changed: bool) -> bytes:
    """The observations with that of this fetch, if it can be compared with the one before."""
    known = old.observations
    if not known and not old.text_digest:  # a record of an older program
        known = seed_observations(old.fetches, old.changes, float(old.interval_s))
    since = found.unchanged_since
    if not old.fetches and since and found.meaning is Meaning.FETCHED:
        return add_observation(known, found.at - since, False, None)
    # The time since the fetch before says nothing about the page when it is short on purpose: a
    # change that a check finds is older than that.
    if found.is_check:
        return known
    # A failed fetch is no observation, and neither is the one after it: an error page was kept.
    if not old.fetches or found.meaning is Meaning.FAILED or has_failed(old):
        return known
    has_both = old.simhash and found.simhash
    distance = (old.simhash ^ found.simhash).bit_count() if has_both else None
    if not (changed and since):
        return add_observation(known, found.at - old.fetched_at, changed, distance)
    known = add_observation(known, since - old.fetched_at, True, distance)
    # A restless page differs at each request, so its date says nothing.
    if finding_in(known[-1]) is ChangeFinding.IMMATERIAL:
        return known
    return add_observation(known, found.at - since, False, None)


def _is_immaterial(observations: bytes) -> bool:
    """Whether the last difference was one that a restless page always has."""
    return bool(observations) and finding_in(observations[-1]) is ChangeFinding.IMMATERIAL
