"""What a run may do when: commands, sync modes, triggers, conditions. Pure rules, no threads."""
