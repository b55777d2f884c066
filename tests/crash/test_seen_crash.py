"""``kill -9`` while URL-seen saves: the file left is whole, and holds the commits up to its
stamp and nothing else.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lycosa.state.seen.seen_port import SeenUrls
from lycosa.state.seen.urls_bloom import BloomSeenUrls
from lycosa.state.seen.urls_sorted import SortedSeenUrls

# Commit n brings the hashes of seed n; every third commit brings none, so that only the stamp is
# written.
WRITER = """
import sys
from pathlib import Path
import numpy as np
from lycosa.state.seen.urls_bloom import BloomSeenUrls
from lycosa.state.seen.urls_sorted import SortedSeenUrls
path = Path(sys.argv[2])
seen = SortedSeenUrls(path) if sys.argv[1] == "sorted" else BloomSeenUrls(path, 5000, 1e-6)
commit = max(seen.stamp, 0)
while True:
    commit += 1
    if commit % 3:
        seen.unseen(np.random.default_rng(commit).integers(0, 1 << 64, 300, dtype=np.uint64))
    seen.seal(commit)
    seen.save(commit)
    print(commit, flush=True)
"""


def _open(name: str, path: Path) -> SeenUrls:
    return SortedSeenUrls(path) if name == "sorted" else BloomSeenUrls(path, 5000, 1e-6)


@pytest.mark.parametrize("name", ["bloom", "sorted"])
def test_kill_during_saves_leaves_a_whole_file(tmp_path: Path, name: str) -> None:
    chance, path, reached = random.Random(7), tmp_path / "f", 0
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, name, str(path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randrange(5, 60)):
                reached = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            reached = max([reached, *(int(line) for line in writer.stdout if line.endswith("\n"))])
        seen = _open(name, path)
        assert reached <= seen.stamp <= reached + 1
        for commit in range(1, seen.stamp + 3):
            hashes = np.random.default_rng(commit).integers(0, 1 << 64, 300, dtype=np.uint64)
            if commit % 3 or commit > seen.stamp:
                assert seen.unseen(hashes).any() == (commit > seen.stamp)
        seen.close()
