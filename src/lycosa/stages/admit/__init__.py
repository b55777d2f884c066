"""Which URLs enter the crawl: pure rules, which can be evaluated again to explain a decision."""
