"""Archives in one file (WACZ 1.1.1): made of a crawl, and read for replay."""
