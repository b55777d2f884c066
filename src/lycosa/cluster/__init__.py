"""Several workers as one crawl, on one machine or many: the coordinator, connections between
processes, and the services of a cluster (Kafka, Redis).
"""
