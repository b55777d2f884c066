"""Questions about the committed state of a partition, answered within a time budget."""
