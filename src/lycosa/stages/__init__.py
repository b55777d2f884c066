"""The stages of a URL's way through the crawl. They do not import each other; a worker connects
them.
"""
