"""Which programs work together, by their numbers of protocol and formats."""

from __future__ import annotations

import pytest

from lycosa.base.config.sections import LimitSection
from lycosa.base.messages.control_records import FormatsSaved, decode_records, folded, key_of
from lycosa.base.messages.coordinator_messages import (
    CONTROL,
    Assignments,
    NodeReport,
    UpgradeFormats,
    encode_node_message,
)
from lycosa.base.messages.timeouts import ClusterRules
from lycosa.base.model.compatibility import FIRST_FORMATS, formats_objection, work_together
from lycosa.cluster.coordinator.coordinator import Coordinator
from lycosa.cluster.coordinator.overview import refusal_of

RULES = ClusterRules(node_timeout_s=20.0, low_disk=0, low_memory=0, protocol=5)


def report(serial: int, protocol: int) -> NodeReport:
    return NodeReport(1.0, serial, 1, 0, 130.0 + serial, 1 << 40, 1 << 40, [], protocol)


def coordinator(formats: int) -> Coordinator:
    made = Coordinator(1, 2, LimitSection(), RULES, 0.0, folded([FormatsSaved(formats)]))
    made.tick(30.0, 130.0)
    return made


def told(made: Coordinator, protocol: int, serial: int = 1) -> Assignments:
    """What a node of this number is told."""
    sent = made.handle_message("a", report(serial, protocol), 30.0 + serial)
    sent += made.tick(31.0 + serial, 131.0 + serial)
    found = [each.message for each in sent if isinstance(each.message, Assignments)]
    return found[-1]


@pytest.mark.parametrize(("protocol", "why"), [(3, "protocol 3 "), (4, ""), (5, ""), (6, "")])
def test_nodes_of_neighbouring_numbers_may_have_shards(protocol: int, why: str) -> None:
    found = told(coordinator(4), protocol)
    assert why in found.notice and bool(found.notice) == bool(why)
    assert found.formats == 4


def test_a_node_that_cannot_read_the_formats_in_force_gets_no_shards() -> None:
    found = told(coordinator(5), 4)
    assert "reads formats up to number 4, and those of 5 are in force" in found.notice


def test_formats_are_raised_when_all_nodes_can_read_them() -> None:
    made = coordinator(4)
    told(made, 4)
    refusal = refusal_of(UpgradeFormats(5), made.status("news", 32.0))
    assert "cannot read formats of number 5: a (up to 4)" in refusal
    assert "the coordinator reads formats up to number 5, not 6" in refusal_of(
        UpgradeFormats(6), made.status("news", 32.0)
    )
    told(made, 5, serial=3)
    assert refusal_of(UpgradeFormats(5), made.status("news", 34.0)) == ""
    sent = made.handle_message("caller", UpgradeFormats(5), 35.0)
    assert [each.message for each in sent if each.receiver == CONTROL] == [FormatsSaved(5)]
    assert made.status("news", 35.0).formats == 5
    assert [each.message.formats for each in sent if isinstance(each.message, Assignments)] == [5]


def test_the_formats_in_force_survive_a_coordinator() -> None:
    records = [FormatsSaved(2), FormatsSaved(3), FormatsSaved(2)]
    again = decode_records([encode_node_message(each) for each in records])
    assert folded(again).formats == 3
    assert {key_of(each) for each in again} == {"formats"}
    assert folded([]).formats == FIRST_FORMATS


def test_a_program_works_on_formats_of_its_number_and_the_one_before() -> None:
    assert work_together(4, 5) and work_together(5, 4) and not work_together(3, 5)
    assert formats_objection(4, 5) == formats_objection(5, 5) == ""
    assert "reads up to 5" in formats_objection(6, 5)
    assert "the version before it" in formats_objection(3, 5)
