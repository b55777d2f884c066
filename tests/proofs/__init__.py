"""Proofs against real servers and real readers: ``script/prove NAME [--short]``. Tests run their
short forms.
"""
