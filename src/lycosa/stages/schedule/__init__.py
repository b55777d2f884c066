"""Scheduling decisions as pure functions: the steps of a visit, priority, retry and refetch."""
