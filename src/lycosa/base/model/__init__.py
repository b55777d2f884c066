"""Frozen values without behaviour that stages, workers and stored records share, one module per
kind.
"""
