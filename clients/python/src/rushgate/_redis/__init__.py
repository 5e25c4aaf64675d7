"""The transport to Redis and Valkey: calls of the function library."""
