"""``python -m lycosa``: the same as the command ``lycosa``."""

from __future__ import annotations

import sys

from lycosa.cli.main import main

if __name__ == "__main__":  # worker processes may import this module again
    sys.exit(main())
