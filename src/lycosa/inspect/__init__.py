"""Looking at a crawl from outside, running or not."""
