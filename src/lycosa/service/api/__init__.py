"""The HTTP interface of a crawl: a separate process, and a caller of coordinator and owners."""
