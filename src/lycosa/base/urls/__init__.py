"""The identity of a URL: canonical form, host and site, SURT key, owning partition."""
