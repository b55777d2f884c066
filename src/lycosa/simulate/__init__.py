"""What a crawl will come to, before it is run: the crawler's own frontier on a sample of a
described web, in virtual time.

``web`` describes the web and ``hosts_file`` reads one from a past crawl, ``sample`` draws hosts of
it, ``visits`` takes them through what ``pipeline`` does, ``drive`` lets time pass, ``run`` puts
parts together and scales them up; ``means`` is what the crawl has to work with.
"""
