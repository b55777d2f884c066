"""What a worker owns, how it begins, and how it makes changes permanent."""
