"""What a worker receives while the crawl runs: calls, questions, and parcels of other workers."""
