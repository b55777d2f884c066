"""Which environment variables child processes get; some of this process's variables are secrets.

A process that parses documents from the web gets only the variables that it needs, by name. A
worker, which runs an operator's own plug-ins, gets everything except secrets that it does not use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

TOKENS_VARIABLE = "LYCOSA_API_TOKENS"
"""The environment variable with tokens of the API, for services that get secrets that way."""

# Otherwise numpy would start a useless thread for each core in each process.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_NEEDED = frozenset({"HOME", "LANG", "LANGUAGE", "PATH", "TMPDIR", "TZ", "VIRTUAL_ENV"})
_NEEDED_FAMILIES = ("LC_", "LD_", "LYCOSA_LOG", "LYCOSA_TEST_", "MALLOC_", "PYTHON")
_BARE = frozenset({"LANG", "TMPDIR", "TZ"})
_BARE_FAMILIES = ("LC_", "LD_", "MALLOC_", "PYTHON")
# Where the clients of the object store and of Redis look for credentials.
_SERVICE_FAMILIES = ("AWS_", "AZURE_", "GOOGLE_", "LYCOSA_REDIS_PASSWORD")
# Where registries and exporters look for theirs, which no worker calls.
_OTHERS_FAMILIES = ("LYCOSA_POSTGRES_", "LYCOSA_CASSANDRA_", "LYCOSA_OPENSEARCH_")


def without_tokens(environ: Mapping[str, str]) -> dict[str, str]:
    """For a program of this crawl that does not serve the API."""
    return {name: value for name, value in environ.items() if name != TOKENS_VARIABLE}


def for_worker(environ: Mapping[str, str], uses_services: bool) -> dict[str, str]:
    """For a worker; ``uses_services``: it calls the object store or Redis itself."""
    kept = {
        name: value
        for name, value in without_tokens(environ).items()
        if not name.startswith(_OTHERS_FAMILIES)
        and (uses_services or not name.startswith(_SERVICE_FAMILIES))
    }
    return {**kept, "OPENBLAS_NUM_THREADS": "1"}


def beside_crawl(environ: Mapping[str, str], is_on_cluster: bool) -> dict[str, str]:
    """For a process that calls the owners of a crawl, and on a cluster the object store.

    It sends no request to a site, so on one machine it gets no secret of requests either.
    """
    return for_worker(environ, uses_services=True) if is_on_cluster else for_parser(environ)


def for_parser(environ: Mapping[str, str]) -> dict[str, str]:
    """For a parse child: it reads foreign documents and talks to its worker only."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _NEEDED or name.startswith(_NEEDED_FAMILIES)
    }
    return {**kept, **_ONE_THREAD}


def for_user_code(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """For a process of user code: what Python needs to start, and what the settings name."""
    wanted = frozenset(names)
    kept = {
        name: value
        for name, value in environ.items()
        if name in wanted or name in _BARE or name.startswith(_BARE_FAMILIES)
    }
    return {**kept, **_ONE_THREAD}
