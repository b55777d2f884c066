"""``lycosa`` on a machine whose wall clock is wrong: ``wrong_clock.py SECONDS ARGUMENTS...``.

The clock is set before anything of ``lycosa`` is imported, and runs ``SECONDS`` ahead of the right
one, or behind it. The monotonic clock is the machine's.
"""

from __future__ import annotations

import sys
import time


def main() -> int:
    ahead_s, right = float(sys.argv.pop(1)), time.time
    time.time = lambda: right() + ahead_s

    from lycosa.cli import main as lycosa

    return lycosa()


if __name__ == "__main__":
    sys.exit(main())
