"""The protocol without sockets: messages and their frames."""
