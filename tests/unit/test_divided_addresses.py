"""The share that one of several nodes has of the limits of an IP address."""

from __future__ import annotations

from lycosa.base.config.sections import PolitenessSection
from lycosa.stages.politeness.address_pool import divided


def test_delays_of_addresses_are_longer_and_slots_fewer_by_the_number_of_nodes() -> None:
    section = divided(PolitenessSection(address_delay_s=0.5, address_slots=12), 4)
    assert (section.address_delay_s, section.address_slots) == (2.0, 3)


def test_there_is_always_one_slot_and_one_node_changes_nothing() -> None:
    one = PolitenessSection(address_slots=3)
    assert divided(one, 8).address_slots == 1
    assert divided(one, 1) == one
