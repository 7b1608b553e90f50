"""What all kinds of captured programs share: the interface, and how a step becomes an archive."""
