"""Politeness: robots.txt, the delay of a host, and the limits of IP addresses on a machine or
cluster.
"""
