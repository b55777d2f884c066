"""Checks of links: crawls that answer what links lead to, and the folder of their reports."""
