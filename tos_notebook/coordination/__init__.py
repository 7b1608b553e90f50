"""One run from the server's side: members, settings, commands, the ledger; no parameters."""
