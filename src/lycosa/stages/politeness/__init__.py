"""Politeness: robots.txt, the delay of a host, and the limits of IP addresses on a machine or
cluster.
"""

from typing import TYPE_CHECKING

from lycosa.base.system.lazy_imports import lazy_names

if TYPE_CHECKING:
    from lycosa.stages.politeness.address_table import AddressTable
    from lycosa.stages.politeness.delay import (
        Delay,
        clamp,
        delay_s,
        longest_delay,
        pace_after_request,
        parse_retry_after,
    )
    from lycosa.stages.politeness.machine_addresses import MachineAddresses
    from lycosa.stages.politeness.node_addresses import NodeAddresses, WorkerAddresses
    from lycosa.stages.politeness.robots_cache import (
        RobotsAnswer,
        RobotsRecord,
        RobotsState,
        after_fetch,
        answer_of,
        decision,
        robots_state,
    )
    from lycosa.stages.politeness.robots_parser import parse_robots
    from lycosa.stages.politeness.robots_rules import (
        Matcher,
        RobotsRules,
        RobotsVerdict,
        robots_target,
    )
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "address_table": "AddressTable",
            "delay": "Delay pace_after_request clamp delay_s longest_delay parse_retry_after",
            "machine_addresses": "MachineAddresses",
            "node_addresses": "NodeAddresses WorkerAddresses",
            "robots_cache": (
                "RobotsAnswer RobotsRecord RobotsState after_fetch answer_of decision robots_state"
            ),
            "robots_parser": "parse_robots",
            "robots_rules": "Matcher RobotsRules RobotsVerdict robots_target",
        },
    )

__all__ = [
    "AddressTable",
    "Delay",
    "MachineAddresses",
    "Matcher",
    "NodeAddresses",
    "RobotsAnswer",
    "RobotsRecord",
    "RobotsRules",
    "RobotsState",
    "RobotsVerdict",
    "WorkerAddresses",
    "after_fetch",
    "answer_of",
    "clamp",
    "decision",
    "delay_s",
    "longest_delay",
    "pace_after_request",
    "parse_retry_after",
    "parse_robots",
    "robots_state",
    "robots_target",
]
