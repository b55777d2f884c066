"""Fuzzing: one small target for each parser of bytes that strangers, or a broken disk, may have
written. See docs/fuzzing.md.
"""
