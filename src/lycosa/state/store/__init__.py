"""Store: captures to WARC and row journal, and the files derived from them."""
