"""Ranks of hosts, domains and pages by the links of a crawl, and their text form."""
