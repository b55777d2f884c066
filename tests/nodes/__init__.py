"""Many nodes in one process and in virtual time: machines that die, hang, are cut off and wake,
with the crawler's real code on them.
"""
