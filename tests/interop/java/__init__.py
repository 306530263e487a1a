"""The official clients in Java against our server."""
