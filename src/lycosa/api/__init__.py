"""The HTTP interface of a crawl: a process of its own, and a caller of coordinator and owners."""
