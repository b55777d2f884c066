"""``python -m fuzz.guided TARGET CORPUS OPTION...``: one run of libFuzzer over one target, in a
process that it ends as it likes.

Atheris counts the branches of our own Python code; libraries in C are run, not measured. The
options are libFuzzer's.
"""

from __future__ import annotations

import sys

import atheris

from fuzz.judging import judge, load


def main() -> None:
    name, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=["lycosa"]):
        target = load(name)
    atheris.Setup([sys.argv[0], *arguments], lambda data: judge(target.check, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
