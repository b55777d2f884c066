"""What sites say about the use of their pages: parsing of each source, and one place that decides.

Everything here is a function of its arguments, and its cost is proportional to its input.
"""
