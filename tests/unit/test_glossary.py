"""The glossary has every concept: the last word of each class name has an entry, or is ordinary.

The packages that have readers of their own (simulation, synthetic web, commands) are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
SOURCE = ROOT / "src" / "lycosa"
LEFT_OUT = {"cli", "inspect", "simulate", "synthetic"}
# What is done and what happened: their names are sentences, of words that have entries elsewhere.
SENTENCES = {
    "base/messages/control_records.py",
    "base/messages/coordinator_messages.py",
    "cluster/coordinator/node_acts.py",
    "cluster/coordinator/node_plan.py",
    "base/messages/worker_messages.py",
    "cluster/network/connection.py",
    "cluster/network/handshake.py",
    "stages/schedule/steps.py",
}

# Words that need no entry: ordinary English, or the usual words of programs and of the web.
_ORDINARY = """
acknowledgement address addressing anchor answered aside ask asked asker assembled back began
block board book borrowed bound cache cause change checker client clock
code column completed config dialer folder follower
connection contact content cookie cost counter crash data decoded demand died disagreement discovery
document element ended entry examined extension extensions failed feed fetched field file filter
finder finding found gap gathered guesser handle hash header handler health held hello holder identifier in
index info joined judged judgement keep keeping key kind known learned leased leasing lending limit link
group list listener listing live lock log machine manner matcher meaning memory message meter model
move name new news note number obstacle opener opening option order packed pair park parsed part passed piece
pin point postpone price process protocol purpose query question queue range rate reader reading
ready receiver record recovered recycled reliever reparsed reparser reply report request
response result retire robot round route router said saved saver search seat section server service setting shape
sign signal silence since size snooze socket source stalled state status step stop store stored stream
style summary superseded suspicion taken tally task transfer tried type unknown unread up url use
value variant wildcard write writer
"""
ORDINARY = frozenset(_ORDINARY.split())


def entries() -> list[str]:
    """The words of the first column, as they stand there."""
    return re.findall(r"(?m)^\| \*\*(.+?)\*\* \|", GLOSSARY.read_text("utf-8"))


def words() -> set[str]:
    """Every word that has an entry, and each last word of a longer one."""
    found = set()
    for entry in entries():
        for term in re.sub(r"\s*\(.*?\)", "", entry).split(", "):
            found |= {term.lower(), term.split()[-1].lower(), term.split("-")[-1].lower()}
    return found


def singular(word: str) -> str:
    """A noun without its plural: ``entries``, ``boxes``, ``leases``."""
    if word.endswith("ies") and word != "cookies":
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def class_names() -> Iterator[tuple[str, str]]:
    """Module and name of each public class that is no error."""
    errors = {"Exception", "OSError", "ValueError", "RuntimeError", "AssertionError"}
    classes = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE)
        if name.parts[0] in LEFT_OUT or name.as_posix() in SENTENCES:
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                classes.append((path.relative_to(SOURCE).as_posix(), node.name, bases))
    for _ in classes:  # errors of errors
        more = {name for _, name, bases in classes if bases & errors} - errors
        if not more:
            break
        errors |= more
    yield from ((path, name) for path, name, _ in classes if name not in errors and name[0] != "_")


def test_the_last_word_of_each_class_name_is_in_the_glossary() -> None:
    known, missing = words(), {}
    for path, name in class_names():
        last = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]+", name)[-1].lower()
        if not {last, singular(last)} & (known | ORDINARY):
            missing[name] = (
                f"{path}: define {singular(last)!r} in docs/glossary.md, or, if it is ordinary, in this test"
            )
    assert missing == {}


def test_the_glossary_is_in_alphabetical_order() -> None:
    found = [re.sub(r"[^a-z ]", "", entry.lower()) for entry in entries()]
    assert found == sorted(found)
    assert len(found) == len(set(found))


def test_every_reference_of_the_glossary_leads_to_an_entry() -> None:
    known = words()
    for line in GLOSSARY.read_text("utf-8").splitlines():
        for target in re.findall(r"\| see ([^|;]+) \|", line):
            assert all(term.strip().lower() in known for term in target.split(",")), line
