"""One worker: its loop, the order of the stages, what connects them, and its commits."""
