"""The parcel exchange: outboxes with numbered parcels, and the ports that deliver parcels and
questions to the partition that owns a URL.

``Post`` delivers parcels; ``Inquiry`` asks and calls.
"""
