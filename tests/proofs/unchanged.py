"""Unchanged pages: a second pass over a real nginx, some days later by the crawler's clock, costs
their headers only.

Five in a hundred pages are changed between the passes. One host has the same ETag for all of its
pages and answers 304 to it, whatever has changed; one compresses by chance; one compresses by
chance and has no validators. Every changed page must be found, also at the host that lies. The
bytes of unchanged pages are those of nginx's access log. pywb then replays each visit of both
passes.

The second pass has four parts, because the clock of the crawler is moved in place of waiting: the
pages that are due, the checks after ten minutes, what these brought into doubt, and pages that
changed so much that it was asked first whether they are gone.
"""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from nginx_site import Hit, NginxSite, write_tree
from proofs.crawls import FAST, crawl, lycosa
from proofs.outputs import Outputs
from proofs.wayback import Wayback, pywb_programs

HONEST, GZIPS, LIES, BARE = (f"127.0.0.{number}" for number in range(1, 5))
_DAY_S = 86_400
_CLOCK = """import os, time
_right, _ahead = time.time, float(os.environ["PROOF_AHEAD_S"])
time.time = lambda: _right() + _ahead
"""
_BY_CHANCE = 'gzip_min_length 20; if ($request_id ~ "^[0-7]") { gzip on; }'
_SAME_TAG = (
    "etag off; if_modified_since off; add_header Last-Modified '';"
    """ add_header ETag '"same"'; if ($http_if_none_match = '"same"') { return 304; }"""
)


class Passes:
    """Two passes over a site of four hosts with ``pages`` pages each; ``size`` is that of a page in
    bytes, ``share`` how many of them are changed at the host that lies.
    """

    def __init__(self, work: Path, pages: int, size: int, share: float, *settings: str) -> None:
        self.settings = settings
        self.work, self.folder = work, work / "crawl"
        self.roots = {
            address: work / f"site-{number}"
            for number, address in enumerate((HONEST, GZIPS, LIES, BARE))
        }
        self.targets: dict[str, list[str]] = {}
        self.changed: dict[str, set[str]] = {}
        self.bodies: dict[str, list[dict[str, bytes]]] = {}
        for seed, (address, root) in enumerate(self.roots.items()):
            number = pages if address in (HONEST, LIES) else max(pages // 4, 10)
            self.targets[address] = sorted(write_tree(root, number, seed, size))
            part = share if address == LIES else 0.05
            chance = random.Random(seed)
            self.changed[address] = set(
                chance.sample(self.targets[address], max(round(part * number), 1))
            )
            self.bodies[address] = [self._bodies(address)]
        (work / "clock").mkdir()
        (work / "clock" / "sitecustomize.py").write_text(_CLOCK)

    def site(self) -> NginxSite:
        own = {
            HONEST: f"root {self.roots[HONEST]};",
            GZIPS: f"root {self.roots[GZIPS]}; location / {{ {_BY_CHANCE} }}",
            LIES: f"root {self.roots[LIES]}; location / {{ {_SAME_TAG} }}",
            BARE: (
                f"root {self.roots[BARE]}; etag off; if_modified_since off;"
                f" location / {{ add_header Last-Modified ''; {_BY_CHANCE} }}"
            ),
        }
        shared = "127.0.0.5"
        return NginxSite(self.work / "nginx", self.roots[HONEST], [*self.roots, shared], own=own)

    def run(self, ahead_s: float, *seeds: str) -> None:
        """A run of the crawl that ends when nothing is due; its clock is ``ahead_s`` ahead."""
        env = {
            "PYTHONPATH": str(self.work / "clock"),
            "PROOF_AHEAD_S": str(ahead_s),
            "LYCOSA_COPIES__PROBE_TURNS": "1",  # all pages of a site are alike
        }
        week = [
            option
            for name in ("first_s", "min_s", "max_s")
            for option in ("--set", f"refetch.{name}=7d")
        ]
        few = ["--set", "frontier.finish_wait_s=1", *self.settings]
        done = crawl(self.folder, *seeds, *FAST, *week, *few, env=env)
        assert done.code == 0, done

    def change(self) -> None:
        """Change the text of the chosen pages."""
        for address, targets in self.changed.items():
            for target in targets:
                path = self._path(address, target)
                text = path.read_text()
                path.write_text(text.replace("<p>", "<p>a paragraph that is new here </p><p>", 1))
            self.bodies[address].append(self._bodies(address))

    def _path(self, address: str, target: str) -> Path:
        return self.roots[address] / (target.lstrip("/") or "index.html")

    def _bodies(self, address: str) -> dict[str, bytes]:
        return {
            target: self._path(address, target).read_bytes() for target in self.targets[address]
        }


def second_pass(passes: Passes, site: NginxSite) -> tuple[list[Hit], list[Hit]]:
    """Both passes; gives the requests for pages of each."""
    base = {address: f"http://{address}:{site.port}" for address in passes.roots}
    passes.run(0.0, *(f"{each}/" for each in base.values()))
    first = _pages(site.hits(), passes)
    passes.change()
    for minutes in (0, 15, 30, 45):
        passes.run(8 * _DAY_S + 60 * minutes)
    return first, _pages(site.hits(), passes)[len(first) :]


def _pages(hits: Iterable[Hit], passes: Passes) -> list[Hit]:
    known = {address: set(targets) for address, targets in passes.targets.items()}
    return [hit for hit in hits if hit.target in known.get(hit.address, ())]


def saved(passes: Passes, first: list[Hit], second: list[Hit], address: str) -> float:
    """The share of the bytes of a host's unchanged pages that the second pass did not cost."""
    changed = passes.changed[address]
    sizes = [
        sum(hit.body_bytes for hit in hits if hit.address == address and hit.target not in changed)
        for hits in (first, second)
    ]
    return 1 - sizes[1] / sizes[0]


def first_statuses(passes: Passes, second: list[Hit], address: str) -> set[int]:
    """The statuses with which the second pass began for a host's unchanged pages."""
    first: dict[str, int] = {}
    for hit in second:
        if hit.address == address and hit.target not in passes.changed[address]:
            first.setdefault(hit.target, hit.status)
    assert len(first) == len(passes.targets[address]) - len(passes.changed[address])
    return set(first.values())


def found_changes(passes: Passes, outputs: Outputs, site: NginxSite) -> list[str]:
    """Each changed page has a capture of its new body, and no other is called changed."""
    lines = []
    for address, changed in passes.changed.items():
        base = f"http://{address}:{site.port}"
        said = {
            row["url"].removeprefix(base)
            for row in outputs.rows
            if row["url"].startswith(base) and row["change"] == "changed"
        }
        assert said == changed, (address, sorted(said ^ changed)[:5], len(said), len(changed))
        lines.append(f"{len(changed)} of {len(passes.targets[address])}")
    return lines


def replay(passes: Passes, outputs: Outputs, site: NginxSite, programs: Path) -> str:
    """pywb shows for each visit what the server had then. Gives a line of the report."""
    shown = Counter[str]()
    newest = max(row["fetch_time"] for row in outputs.rows)
    with Wayback(passes.folder, programs, passes.work / "pywb") as wayback:
        for row in outputs.rows:
            address, _, path = row["url"].removeprefix("http://").partition(f":{site.port}")
            if path not in passes.bodies.get(address, [{}])[0]:
                continue
            is_old = row["change"] != "changed" and _is_first(row, newest)
            wanted = {passes.bodies[address][0 if is_old else 1][path]}
            if address == LIES and row["revisit_profile"] == "server-not-modified":
                # The capture that it confirmed, or the check that came soon after: the nearer one.
                wanted |= {bodies[path] for bodies in passes.bodies[address]}
            answer = wayback.replay(row["url"], f"{row['fetch_time']:%Y%m%d%H%M%S}")
            body = gzip.decompress(answer.body) if answer.body[:2] == b"\x1f\x8b" else answer.body
            said = row["url"], row["fetch_time"], answer.status
            assert answer.status == 200 and body in wanted, said
            shown[row["revisit_profile"] or "response"] += 1
    return f"pywb: {sum(shown.values())} visits replayed: {dict(shown)}"


def _is_first(row: dict[str, object], newest: object) -> bool:
    time, last = row["fetch_time"], newest
    return (last - time).total_seconds() > 4 * _DAY_S  # type: ignore[operator]


def prove(work: Path, short: bool, pages: int = 0) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    pages = pages or (120 if short else 4000)
    # The bounds are for many pages: few are checked more often here, so that one is found to lie.
    often = ("--set", "refetch.check_every=4") if short else ()
    passes = Passes(work, pages, 4000 if short else 16_000, 0.9 if short else 0.05, *often)
    with passes.site() as site:
        first, second = second_pass(passes, site)
        outputs = Outputs(passes.folder)
        assert not outputs.disagreements(), outputs.disagreements()[:5]
        found = found_changes(passes, outputs, site)
        audit = lycosa("audit", str(passes.folder))
        assert audit.code == 0, audit
        shares = {address: saved(passes, first, second, address) for address in passes.roots}
        statuses = {
            address: dict(Counter(hit.status for hit in second if hit.address == address))
            for address in passes.roots
        }
        for address in (HONEST, GZIPS):
            assert first_statuses(passes, second, address) == {304}, (address, statuses)
            # With few pages, chance decides how many of them are checked by a second request.
            assert short or shares[address] >= 0.99, shares
        report = [
            f"changed pages found (honest, gzips, lies, no validators): {', '.join(found)}",
            *(
                f"{name}: {100 * shares[address]:.2f} % of the bytes of unchanged pages saved;"
                f" answers of the second pass {statuses[address]}"
                for name, address in (
                    ("honest", HONEST),
                    ("gzips by chance", GZIPS),
                    ("lies", LIES),
                )
            ),
            _bare(passes, outputs, site),
        ]
        programs = pywb_programs(work, may_install=not short)
        report.append(
            replay(passes, outputs, site, programs)
            if programs is not None
            else "pywb: not there, nothing replayed"
        )
    return report


def _bare(passes: Passes, outputs: Outputs, site: NginxSite) -> str:
    """What is stored of a host that compresses by chance and sends no validators."""
    rows = [row for row in outputs.rows if row["url"].startswith(f"http://{BARE}:{site.port}/")]
    again = [row for row in rows if row["change"] == "same"]
    assert len(again) == len(passes.targets[BARE]) - len(passes.changed[BARE])
    revisits = sum(bool(row["revisit_profile"]) for row in again)
    return (
        f"gzips by chance, no validators: {len(again)} unchanged pages, none called changed;"
        f" {revisits} stored as revisits, {len(again) - revisits} in the other encoding for the"
        " first time"
    )
