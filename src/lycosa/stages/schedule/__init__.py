"""Scheduling decisions as pure functions: priority, retry and refetch."""
