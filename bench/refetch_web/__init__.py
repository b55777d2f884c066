"""Refetching a web of hosts with turns, in arrays: ``python -m bench.refetch_web``."""
