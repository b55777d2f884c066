"""Prediction of a crawl: the crawler's own frontier on a sample of a web, in virtual time.

``web_model`` describes the web and ``hosts_file`` reads one from a past crawl. ``sample`` draws
hosts from it, ``visits`` performs their visits like ``worker.visit.pipeline``, ``drive`` advances
the time, ``simulation_run`` combines the parts and scales them up. ``resources`` is what the crawl
has to work with.
"""
