"""The synthetic web: pages computed from their URL, a server and an in-process fetcher for them.

It also provides virtual time and faults.
"""

from lycosa.synthetic.faults import FaultRates, Faults, FaultyFetcher, FaultyOffload
from lycosa.synthetic.fetcher import SyntheticFetcher
from lycosa.synthetic.misbehaviours import ExpectedOutcome, Misbehaviour
from lycosa.synthetic.oracle import Obstacle, OracleRules, Truth
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.request_log import LoggedRequest, RequestLog, read_log
from lycosa.synthetic.resolver import SyntheticResolver
from lycosa.synthetic.sent_response import Response
from lycosa.synthetic.synthetic_hosts import Hosts, host_name
from lycosa.synthetic.synthetic_robots import RobotsVariant
from lycosa.synthetic.synthetic_server import SyntheticServer
from lycosa.synthetic.synthetic_web import Responder, SyntheticWeb
from lycosa.synthetic.virtual_clock import (
    VIRTUAL_EPOCH,
    Crash,
    Deadlock,
    VirtualClock,
    VirtualLoop,
    VirtualOffload,
    run_virtual,
)

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
