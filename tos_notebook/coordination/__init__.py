"""One run from the server's side: who trains what, settings, commands, failures, the ledger."""
