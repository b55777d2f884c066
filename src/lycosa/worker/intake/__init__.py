"""What enters the frontier: seeds, outlinks, redirects, sitemaps, and parcels to and from other
workers.
"""
