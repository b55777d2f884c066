"""User code that reads stored pages: what it gets, what it may answer, and where it runs."""
