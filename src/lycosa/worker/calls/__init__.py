"""What others ask of the owner of a partition while the crawl runs."""
