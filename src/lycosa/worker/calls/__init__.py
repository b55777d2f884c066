"""What others ask of a worker and send to it while the crawl runs."""
