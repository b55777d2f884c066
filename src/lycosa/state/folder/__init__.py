"""A crawl folder: its names, manifest, lock, seeds, and what is checked before a start."""
