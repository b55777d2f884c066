"""The key-value port, its implementations, and the codecs of what is stored in it."""
