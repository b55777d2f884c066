"""URL-seen and content-seen: was this URL, this body or a similar text seen before?"""
