"""What everything else uses: values, settings, URLs, the log, the machine, and messages between
parts."""
