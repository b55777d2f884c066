"""Computes ranks of hosts, domains and pages by the links that a crawl has stored."""
