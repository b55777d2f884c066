"""One worker: its loop, the assembly of its parts, and what these parts share."""
