"""When and how urgently a URL is fetched: priority, retry, refetch. Pure functions."""
