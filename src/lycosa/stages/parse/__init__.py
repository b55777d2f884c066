"""Turns the bytes of a document into values, in a child process that a document may kill."""
