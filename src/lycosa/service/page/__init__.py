"""The operator's page: what the crawl does and why, and forms to steer it, in a browser.

The pages are made on the server and work without scripts. With scripts, numbers and charts of the
overview follow the crawl, and a list follows what is typed. Everything is served from this package;
no page loads anything from elsewhere, and the security policy allows nothing else.
"""
