"""A report about the links of a site: what each leads to, from stored pages and answers."""
