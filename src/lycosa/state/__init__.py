"""What a crawl stores: tables, commit log, parcels, segments, snapshots, and where they are."""
