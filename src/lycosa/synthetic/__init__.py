"""The synthetic web: pages computed from their URL, a server and an in-process fetcher for them.

It also provides virtual time and faults.
"""

from lycosa.synthetic.clock import (
    EPOCH,
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
from lycosa.synthetic.misbehaviours import Misbehaviour, Outcome
from lycosa.synthetic.oracle import Rules, Truth, Verdict
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.request_log import Exchange, RequestLog, read_log
from lycosa.synthetic.resolver import SyntheticResolver
from lycosa.synthetic.robots import RobotsVariant
from lycosa.synthetic.server import SyntheticServer
from lycosa.synthetic.web import Responder, SyntheticWeb
from lycosa.synthetic.wire import Response

__all__ = [
    "EPOCH",
    "Crash",
    "Deadlock",
    "Exchange",
    "FaultRates",
    "Faults",
    "FaultyFetcher",
    "FaultyOffload",
    "Hosts",
    "Misbehaviour",
    "Outcome",
    "RequestLog",
    "Responder",
    "Response",
    "RobotsVariant",
    "Rules",
    "SyntheticFetcher",
    "SyntheticResolver",
    "SyntheticServer",
    "SyntheticWeb",
    "Truth",
    "Verdict",
    "VirtualClock",
    "VirtualLoop",
    "VirtualOffload",
    "WebPlan",
    "host_name",
    "read_log",
    "run_virtual",
]
