"""The shards of a crawl on many machines, as any machine reads them."""
