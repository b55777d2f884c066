"""Everything that talks to web servers: DNS lookups, address checks, HTTP requests."""
