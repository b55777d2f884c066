"""The log: one record per fetch and one per event, from every process, as text or JSON."""
