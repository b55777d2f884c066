"""The address table that all crawls of a user on this machine share.

Together they respect the delay and the slots of each address. A second table next to it has one
slot for each host, so that crawls which share a host send it one request at a time. The table is in
memory that all processes of the machine see, in a folder that only this user can enter:
``/dev/shm/lycosa-UID`` on Linux, else below the folder for temporary files. The variable
``LYCOSA_RUNTIME_DIR`` names another folder. The file name has the version of the layout, so that
programs of different versions do not disturb each other.
"""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path

import msgspec

from lycosa.base.config.sections import PolitenessSection
from lycosa.stages.politeness.address_table import MACHINE_ENTRIES, MACHINE_SLOTS, AddressTable

MACHINE_TABLE_VARIABLE = "LYCOSA_RUNTIME_DIR"
MACHINE_TABLE_NAME = "addresses-3"
HOST_TABLE_NAME = "hosts-3"
_HOST_CELLS = 8  # one request, and those of crawls that stand still
_SHARED_MEMORY = Path("/dev/shm")


class NoMachineTable(Exception):
    """The crawls of this machine cannot share a table; the message says why."""


def machine_table(section: PolitenessSection) -> Path:
    """The file of the table, which exists and can be opened. Raises ``NoMachineTable``."""
    folder = machine_folder()
    try:
        _make_private(folder)
        path = folder / MACHINE_TABLE_NAME
        for each in (path, path.with_name(HOST_TABLE_NAME)):
            # No symbolic link is followed: a folder for temporary files is open to other users.
            os.close(os.open(each, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        # Opened once here, so that a damaged or foreign file stops the start, not a worker later.
        open_machine_table(path, section).close()
        open_host_table(path, section).close()
    except (OSError, ValueError) as error:
        # A `ValueError` describes the file, and an `OSError` has the words of the system.
        what = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise NoMachineTable(f"{folder}: {what}") from error
    return path


def open_machine_table(
    path: Path, section: PolitenessSection, request_s: float = 60.0
) -> AddressTable:
    """Open the table of all crawls for one process, whose requests take at most ``request_s``.

    Raises ``ValueError`` or ``OSError``.
    """
    return AddressTable(path, section, MACHINE_ENTRIES, MACHINE_SLOTS, request_s)


def open_host_table(
    path: Path, section: PolitenessSection, request_s: float = 60.0
) -> AddressTable:
    """Open the table of hosts next to the table ``path``, as ``open_machine_table``.

    A host has no delay here: its pause after a request is that of each crawl.
    """
    single = msgspec.structs.replace(section, address_delay_s=0.0, address_slots=1)
    return AddressTable(
        path.with_name(HOST_TABLE_NAME), single, MACHINE_ENTRIES, _HOST_CELLS, request_s
    )


def table_place(path: Path, section: PolitenessSection) -> str:
    """A text for the attempt log: the machine, the table, and what tells it from all others.

    Opens the table for a moment. Raises the errors of ``open_machine_table``.
    """
    table = open_machine_table(path, section)
    try:
        return f"{socket.gethostname()}:{path}:{table.identity:016x}"
    finally:
        table.close()


def machine_folder() -> Path:
    """The folder of this user."""
    if named := os.environ.get(MACHINE_TABLE_VARIABLE):
        return Path(named)
    # Not XDG_RUNTIME_DIR: a crawl started by cron does not have it, and would not find the table
    # of a crawl started by hand.
    base = (
        _SHARED_MEMORY
        if os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
        else Path(tempfile.gettempdir())
    )
    return base / f"lycosa-{os.getuid()}"


def _make_private(folder: Path) -> None:
    """Make the folder. It must be ours, no link, and not writable by others. Raises ``OSError``."""
    folder.mkdir(mode=0o700, exist_ok=True)
    # Looked at again after `mkdir`, because the folder may be one that another user made before.
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(1, "it is not a folder that belongs to you alone", str(folder))
