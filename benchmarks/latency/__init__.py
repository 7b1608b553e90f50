"""Programs that measure how soon an exchange, a command, a new epoch or an error takes effect."""
