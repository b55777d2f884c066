"""Everything that decides what is fetched next: Mercator's two layers of queues with BUbiNG's
workbench.
"""
