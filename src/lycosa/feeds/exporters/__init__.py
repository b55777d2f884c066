"""Targets of feeds: files, databases, search engines, tables of data sets, webhooks."""
