"""Whether a Python is an optimised build: profile-guided optimisation saves a crawl about a tenth
of its CPU time.

Run as a script it exits with 0 when the interpreter that runs it is one, and with 1 when not.
``script/setup`` asks each candidate in this way, so the file must run on a bare Python and import
nothing else of the project.
"""

import sys
import sysconfig


def is_optimised() -> bool:
    """Whether this interpreter was built with ``--enable-optimizations``, as far as it can be
    known.
    """
    if "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or ""):
        return True
    # Debian and Ubuntu build a static executable with PGO and LTO and a shared library without.
    # Their configuration is the library's: it says "shared" where the executable uses no libpython.
    return bool(sysconfig.get_config_var("Py_ENABLE_SHARED")) and not _uses_shared_library()


def described() -> str:
    """Version, path and kind of build, for the head of a benchmark's output."""
    kind = (
        "an optimised build"
        if is_optimised()
        else "NOT an optimised build (no PGO): figures are about a tenth too high"
    )
    return f"Python {sys.version.split()[0]} at {sys.executable}: {kind}"


def _uses_shared_library() -> bool:
    try:
        with open("/proc/self/maps") as maps:  # noqa: PTH123  # nothing is imported that a start does not need
            return "libpython" in maps.read()
    except OSError:
        return True  # no /proc: a configuration that says "shared" is believed


if __name__ == "__main__":
    sys.exit(not is_optimised())
