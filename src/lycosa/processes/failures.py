"""Errors of a worker as the message that its node gets, with whose fault they are.

On a cluster everything on a machine's disk is a copy of what the log and the object store have. So
an error of the system (an address that is away, a full or failing disk, too many open files, a
network that is down), of local tables or of local certificates says nothing about the shard:
another machine may run it, and this one may later. What is wrong with the log or with the store has
error classes of this program. An error of a library, or of the language, is a bug or a surprise; it
may pass, so it is treated as the machine's.
"""

from __future__ import annotations

import errno
import traceback

from lycosa.base.messages.worker_messages import Failed
from lycosa.base.system.durable import FULL, DiskFull
from lycosa.base.system.shortage import is_shortage
from lycosa.cluster.coordinator.node_acts import Died

_OURS = "lycosa."
_LOCAL_KINDS = frozenset(
    {
        "lycosa.state.kv.kv_port.TableError",
        "lycosa.state.kv.kv_port.TableLocked",
        "lycosa.state.kv.kv_port.TableDamaged",
        "lycosa.state.seen.hash_files.HashFileDamaged",
        "lycosa.cluster.kafka.kafka_clients.BadClientSettings",
        "lycosa.base.model.known_code.CodeError",
        "lycosa.base.signing.signing_key.KeyFileError",
        "lycosa.stages.fetch.secret_values.SecretError",
    }
)
"""The errors of local tables, of the files of keys and certificates that ``cluster.toml`` names for
Kafka, of user code, which may need what is installed elsewhere, and of the key and the secrets that
each machine has for its requests. By name: the modules of some need optional packages.
"""


def failure_of(error: Exception, is_on_cluster: bool) -> Failed:
    """The message about an error that a worker ended with.

    All kinds of a full disk, including those of Parquet, get the same class name.
    """
    number, filename = (
        (error.errno or 0, str(error.filename or "")) if isinstance(error, OSError) else (0, "")
    )
    if "No space left on device" in str(error):
        number = errno.ENOSPC
    kind = _name(DiskFull if number in FULL else type(error))
    is_local = bool(number) or kind in _LOCAL_KINDS or not kind.startswith(_OURS)
    return Failed(
        kind,
        str(error) or repr(error),
        traceback.format_exc(),
        number,
        filename,
        is_shortage(error),
        is_on_cluster and is_local,
    )


def _name(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def failed_start(error: Exception, is_on_cluster: bool) -> Failed | Died:
    """How a worker ended whose process could not be prepared or started.

    On one machine errors of this program end the run: they say what is wrong, and the same would
    happen again. Any other counts as a death: the start is repeated after pauses, a bounded number
    of times.
    """
    failed = failure_of(error, is_on_cluster)
    is_final = not is_on_cluster and failed.kind.startswith(_OURS)
    if not failed.is_passing and (failed.is_local or is_final):
        return failed
    return Died(f"{type(error).__name__}: {failed.text}")
