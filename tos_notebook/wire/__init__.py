"""The protocol without sockets: messages, and the frames they travel in."""
