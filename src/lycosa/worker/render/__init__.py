"""Pages that renderers take, and what becomes of their results."""
