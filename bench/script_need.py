"""How well the rule finds the pages that need their scripts, on pages that it was not made with.

    python -m bench.script_need label SITES LABELS    what Chromium shows of each page, with its
                                                      scripts and without; before the rule is asked
    python -m bench.script_need judge SITES LABELS    precision and recall of the rule

SITES has a folder for each built site (``tests/built_sites.py``), which is served on loopback
addresses. A page needs its scripts if these add at least 100 characters (white space not counted)
to its visible text, or two links: what ``render_choice`` calls useful.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from built_sites import SiteServer, built_sites
from live_pages import see_live
from lycosa.base.model.parsed import ScriptNeed
from lycosa.stages.parse.html import read_html

_CHARACTERS, _LINKS = 100, 2


class Label(msgspec.Struct, frozen=True):
    """What scripts add to a page: characters and links."""

    site: str
    path: str
    characters: int
    links: int

    @property
    def needs(self) -> bool:
        return self.characters >= _CHARACTERS or self.links >= _LINKS


def label(folder: Path) -> list[Label]:
    """Look at all pages of the sites."""
    sites = built_sites(folder)
    with SiteServer(sites) as server:
        urls = {
            server.bases[site.name] + path: (site.name, path)
            for site in sites
            for path in site.paths
        }
        plain = see_live(list(urls), has_scripts=False)
        live = see_live(list(urls))
    return [
        Label(
            *place,
            len(live[url].text) - len(plain[url].text),
            len(live[url].links - plain[url].links),
        )
        for url, place in urls.items()
    ]


def judge(folder: Path, labels: list[Label]) -> list[str]:
    """The rule's marks against the labels; a line for each page where they differ."""
    sites = {site.name: site for site in built_sites(folder)}
    marks: Counter[tuple[bool, ScriptNeed]] = Counter()
    wrong = []
    for each in labels:
        file = sites[each.site].find(each.path)
        assert file is not None, each
        need = read_html(file.body, judges_scripts=True).script_need
        marks[each.needs, need] += 1
        if each.needs is (need is ScriptNeed.NONE):
            what = "missed" if each.needs else "marked"
            added = f"scripts add {each.characters} characters and {each.links} links"
            wrong.append(f"{what} ({need.name}): {each.site}{each.path}: {added}")
    needing = sum(count for (needs, _), count in marks.items() if needs)
    lines = [f"{len(labels)} pages, {needing} need their scripts"]
    for names in (("LIKELY",), ("LIKELY", "PERHAPS")):
        found = sum(count for (needs, need), count in marks.items() if needs and need.name in names)
        marked = sum(count for (_, need), count in marks.items() if need.name in names)
        lines.append(
            f"{' or '.join(names).lower()}: precision {found} of {marked}, recall {found} of {needing}"
        )
    return lines + sorted(wrong)


def main() -> int:
    """Label or judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=("label", "judge"))
    parser.add_argument("sites", type=Path)
    parser.add_argument("labels", type=Path)
    asked = parser.parse_args()
    if asked.action == "label":
        labels = label(asked.sites)
        asked.labels.write_bytes(msgspec.json.format(msgspec.json.encode(labels)))
        print(f"{len(labels)} pages, {sum(each.needs for each in labels)} need their scripts")
    else:
        known = msgspec.json.decode(asked.labels.read_bytes(), type=list[Label])
        print("\n".join(judge(asked.sites, known)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
