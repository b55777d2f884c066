"""What a crawl stores: tables, commit log, parcels, attempt log, URL-seen, segments and snapshots,
in a folder or in object storage.
"""
