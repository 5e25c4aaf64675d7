"""The transport to a Rushgate server: requests of its HTTP API."""
