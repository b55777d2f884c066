"""Who may be fetched, and when: robots.txt, the delay of a host, the table of addresses."""
