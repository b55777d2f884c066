"""Redis as the address pool of a cluster: its script, and what its servers must be.

Needs the extra ``redis``.
"""
