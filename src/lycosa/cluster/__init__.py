"""Many workers as one crawl: who runs which, what they may capture, and when all of it is over.
Nothing in here waits or reads anything.
"""
