"""The synthetic web: pages computed from their URL, a server and an in-process fetcher for them.

It also provides virtual time and faults.
"""

from lycosa.synthetic.clock import (
    VIRTUAL_EPOCH,
    Crash,
    Deadlock,
    VirtualClock,
    VirtualLoop,
    VirtualOffload,
    run_virtual,
)
from lycosa.synthetic.faults import FaultRates, Faults, FaultyFetcher, FaultyOffload
from lycosa.synthetic.fetcher import SyntheticFetcher
from lycosa.synthetic.hosts import Hosts, host_name
from lycosa.synthetic.misbehaviours import ExpectedOutcome, Misbehaviour
from lycosa.synthetic.oracle import Obstacle, OracleRules, Truth
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.request_log import LoggedRequest, RequestLog, read_log
from lycosa.synthetic.resolver import SyntheticResolver
from lycosa.synthetic.robots import RobotsVariant
from lycosa.synthetic.server import SyntheticServer
from lycosa.synthetic.web import Responder, SyntheticWeb
from lycosa.synthetic.wire import Response

__all__ = [
    "VIRTUAL_EPOCH",
    "Crash",
    "Deadlock",
    "ExpectedOutcome",
    "FaultRates",
    "Faults",
    "FaultyFetcher",
    "FaultyOffload",
    "Hosts",
    "LoggedRequest",
    "Misbehaviour",
    "Obstacle",
    "OracleRules",
    "RequestLog",
    "Responder",
    "Response",
    "RobotsVariant",
    "SyntheticFetcher",
    "SyntheticResolver",
    "SyntheticServer",
    "SyntheticWeb",
    "Truth",
    "VirtualClock",
    "VirtualLoop",
    "VirtualOffload",
    "WebPlan",
    "host_name",
    "read_log",
    "run_virtual",
]
