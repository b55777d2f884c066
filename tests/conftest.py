"""Makes the helper modules of this folder importable from every kind of test."""
