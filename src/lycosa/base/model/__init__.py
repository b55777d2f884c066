"""The values that travel between stages: frozen, without behaviour, one file per event."""
