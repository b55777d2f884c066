"""Why a URL was fetched, waits or was refused."""
