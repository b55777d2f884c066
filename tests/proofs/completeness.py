"""Completeness: a crawl fetches exactly the HTML pages with status 200 that ``wget2 -r -l inf``
reaches with the same scope.

Both crawl the same nginx, one after the other; its access log is what is compared. Differences are
not excused: each must have an explanation in ``explanations``, which looks at the link itself.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urljoin

from nginx_site import Hit, NginxSite, write_tree
from proofs.crawls import FAST, crawl

DOCUMENTATION: Mapping[str, tuple[str, ...]] = {
    "java": ("/usr/share/doc/openjdk-17-jre-headless/api", "/usr/share/doc/openjdk-17-doc/api"),
    "python": ("/usr/share/doc/python3.11/html",),
    "pg": ("/usr/share/doc/postgresql-doc-15/html",),
}
"""Debian's packages openjdk-17-doc, python3.11-doc and postgresql-doc-15: where their HTML is."""


class Compared(NamedTuple):
    """Targets that each crawler got as HTML pages; seconds that each took; why they differ, by
    target; our requests that were repeated.
    """

    ours: set[str]
    theirs: set[str]
    seconds: tuple[float, float]
    explained: dict[str, str]
    repeated: list[str]

    @property
    def unexplained(self) -> set[str]:
        """Differences without an explanation."""
        return (self.ours ^ self.theirs) - self.explained.keys()


def link_documentation(root: Path, names: tuple[str, ...] = tuple(DOCUMENTATION)) -> list[str]:
    """Makes a site of the documentation that is installed, with an index page; gives what is
    missing.
    """
    root.mkdir(parents=True)
    missing, entries = [], []
    for name in names:
        found = next((path for path in DOCUMENTATION[name] if Path(path).is_dir()), None)
        if found is None:
            missing.append(name)
            continue
        (root / name).symlink_to(Path(found).resolve())
        entries.append(f'<li><a href="/{name}/index.html">{name}</a></li>')
    (root / "index.html").write_text(
        f"<!DOCTYPE html><title>Documentation</title><ul>{''.join(entries)}</ul>"
    )
    return missing


def compare(site: NginxSite, work: Path) -> Compared:
    """Crawls the site with both."""
    done = crawl(work / "crawl", f"{site.base}/", *FAST)
    assert done.code == 0, done
    ours = site.hits()
    wget2(site, work / "wget2")
    theirs = site.hits()[len(ours) :]
    targets = count_targets(ours)
    repeated = sorted(target for target, number in targets.items() if number > 1)
    mine, other = html(ours), html(theirs)
    explained = {
        target: why
        for target in mine ^ other
        if (why := explanation(site.root, target, target in mine, ours))
    }
    return Compared(mine, other, (_span(ours), _span(theirs)), explained, repeated)


def count_targets(hits: list[Hit]) -> dict[str, int]:
    """How often each target was asked for."""
    counts: dict[str, int] = {}
    for hit in hits:
        counts[hit.target] = counts.get(hit.target, 0) + 1
    return counts


def wget2(site: NginxSite, folder: Path) -> None:
    """The other crawler, with the same scope: the host of the seed, without end, links of
    documents and not what pages are made of.
    """
    program = shutil.which("wget2")
    assert program is not None, "wget2 is not installed"
    folder.mkdir()
    command = [
        program,
        "-r",
        "-l",
        "inf",
        "-q",
        "--no-config",
        "--max-threads=4",
        "--tries=2",
        "-P",
        str(folder),
        f"{site.base}/",
    ]
    subprocess.run(
        command,
        check=False,
        timeout=3600,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    shutil.rmtree(folder)


def html(hits: list[Hit]) -> set[str]:
    """Targets that were answered with an HTML page, percent-encoding undone: the two spell it
    differently.
    """
    return {unquote(hit.target) for hit in hits if hit.is_html}


def explanation(root: Path, target: str, is_ours: bool, hits: list[Hit]) -> str:
    """Why only one of the two got a page, judged by the pages that link to it; empty when there
    is no good reason.
    """
    name = target.partition("?")[0].rstrip("/").rpartition("/")[2] or "/"
    links = [(page, tag) for page, tag in _tags_with(root, name) if _leads_to(tag, page, target)]
    if not links:
        return "no page links to it" if not is_ours else ""
    elements = {tag.lstrip("<").split(None, 1)[0].lower() for _, tag in links}
    if is_ours:
        return (
            f"linked only by {', '.join(sorted(elements))}" if not elements & {"a", "area"} else ""
        )
    followed = {"a", "area", "frame", "iframe", "link"}
    return (
        f"linked only by {', '.join(sorted(elements))}, which is not followed"
        if not elements & followed
        else ""
    )


def _tags_with(root: Path, name: str) -> list[tuple[str, str]]:
    """Tags of the site's files that mention a name, with the target of their page."""
    found = []
    pattern = re.compile(rf"<[a-zA-Z][^<>]*{re.escape(name)}[^<>]*>")
    for path in (
        root.rglob("*.html", recurse_symlinks=True)
        if hasattr(Path, "full_match")
        else _all_html(root)
    ):
        text = path.read_text(errors="replace")
        if name in text:
            found += [("/" + str(path.relative_to(root)), tag) for tag in pattern.findall(text)]
    return found


def _all_html(root: Path) -> list[Path]:
    """HTML files below a folder, through links."""
    return [
        path
        for top in sorted(root.iterdir())
        for path in ([top] if top.is_file() else top.rglob("*.html"))
        if path.suffix == ".html"
    ]


def _leads_to(tag: str, page: str, target: str) -> bool:
    links = re.findall(r"""(?:href|src|data|content)\s*=\s*["']?([^"'\s>]+)""", tag, re.IGNORECASE)
    return any(unquote(urljoin(page, link).partition("#")[0]) == target for link in links)


def _span(hits: list[Hit]) -> float:
    return max(hit.end for hit in hits) - min(hit.start for hit in hits)


def prove(work: Path, short: bool) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    root = work / "site"
    if short:
        write_tree(root, 120)
        missing = []
    else:
        missing = link_documentation(root)
    with NginxSite(work / "nginx", root) as site:
        compared = compare(site, work)
    report = [
        (
            f"HTML pages with status 200: ours {len(compared.ours)}, wget2 {len(compared.theirs)}, "
            f"in both {len(compared.ours & compared.theirs)}"
        ),
        (
            f"seconds from the first request to the last: ours {compared.seconds[0]:.1f}, wget2"
            f" {compared.seconds[1]:.1f}"
        ),
        f"requested more than once by us: {len(compared.repeated)} {compared.repeated[:5]}",
        *(f"not installed: {name}" for name in missing),
        *(
            f"only ours: {target}: {compared.explained.get(target, 'NOT EXPLAINED')}"
            for target in sorted(compared.ours - compared.theirs)
        ),
        *(
            f"only wget2's: {target}: {compared.explained.get(target, 'NOT EXPLAINED')}"
            for target in sorted(compared.theirs - compared.ours)
        ),
    ]
    assert not compared.unexplained, "\n".join(report)
    assert not compared.repeated, "\n".join(report)
    assert compared.ours, "nothing was fetched"
    return report
