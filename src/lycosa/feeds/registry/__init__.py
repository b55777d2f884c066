"""A crawl's registry: its URLs, hosts and dead letters as rows of a database."""
