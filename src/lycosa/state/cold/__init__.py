"""The cold archive: records of URLs that nothing waits for, in Parquet files next to the table."""
