"""Objects in a store: S3 and compatible servers, Google Cloud Storage, Azure, a local folder."""
