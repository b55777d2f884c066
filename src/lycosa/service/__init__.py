"""The crawl as a service: its HTTP interface and the operator's page."""
