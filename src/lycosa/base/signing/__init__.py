"""The crawler's proof of who it is: key files, key directories, signatures of HTTP messages."""
