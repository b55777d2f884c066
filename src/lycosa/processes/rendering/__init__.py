"""A renderer process: its job and keeper, the pages it takes, and what it asks of the owners."""
