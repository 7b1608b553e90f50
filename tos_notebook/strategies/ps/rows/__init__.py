"""The parameter server's exchange of tables by row: only rows that have changed are sent."""
