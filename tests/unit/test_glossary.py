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

# Words that need no entry: ordinary English, the usual words of programs and of the web, and words
# that one module alone uses and defines.
_ORDINARY = """
acknowledgement action address addressing alternate anchor answered archive article ask asked asker
assembled back batch began belief block board book borrowed bound bounds builder byte cache caller
candidate canonicalizer cause change checker choice claim client clock code column committer
completed condition config connection contact content control cookie cost count counter crash
credential cut data decoded delivery delta demand desk dialer died directive disagreement discovered
discovery distribution divided division document draft element end ended entry examined examiner
export exporter extension extensions fact factor failed failure feed fetched field file filter finder
finding fingerprint fold folder follower forecast found gap gate gathered group guesser handle
handler handover hash head header heading health held hello histogram holder hook hours identifier in
inbound inbox index info input inquiry interval item jar job joined judge judged judgement keep
keeper keeping key kind known lag lane lateness learned leased leasing lending lent level likeness limit
limiter line link list listener listing live location lock log machine manner matcher meaning member
memory merge message metadata meter mode model move name need new news note notice number object
obstacle offload opener opening option order original outcome owned pacing packed pair park parsed
parser part passed path pattern paused peer piece pin place plan planner plugin point position post
postpone price privacy process profile progress projector protocol proxy purpose query question queue quota range rank
rate reader reading ready received receiver record recovered recycled reliever render rendered renderer
reparsed reparser reply report request requisite resolver response rest result retire robot round
route router row run runner said saved saver schema scorer search section sender server service
session set setting shape shipper sign signal signer silence since size slice snooze socket source
stalled state status step stop storage store stored stream style submission summary superseded
suppressed suspicion taken tally target task thread tool trace transaction transfer tried truth type
unknown unread up url use value variant version visibility walk want watch webhook wildcard write
writer
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
    errors = {
        "BaseException",
        "Exception",
        "OSError",
        "ValueError",
        "RuntimeError",
        "AssertionError",
    }
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


def test_the_glossary_is_short_enough_to_be_read() -> None:
    assert 100 <= len(entries()) <= 150


def test_the_glossary_is_in_alphabetical_order() -> None:
    found = [re.sub(r"[^a-z ]", "", entry.lower()) for entry in entries()]
    assert found == sorted(found)
    assert len(found) == len(set(found))


def test_every_reference_of_the_glossary_leads_to_an_entry() -> None:
    known = words()
    for line in GLOSSARY.read_text("utf-8").splitlines():
        for target in re.findall(r"\| see ([^|;]+) \|", line):
            assert all(term.strip().lower() in known for term in target.split(",")), line
