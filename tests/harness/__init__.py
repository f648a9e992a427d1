"""Programs that kill, damage and fuzz: run briefly by tests, longer by hand."""
