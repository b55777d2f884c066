"""What all other packages use: values, settings, URLs, the log, tools next to the operating system,
and messages between processes.
"""
