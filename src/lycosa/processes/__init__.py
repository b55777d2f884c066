"""The processes of a crawl: supervisor, node and workers, a folder as a service, and
``lycosa.Crawl``.
"""
