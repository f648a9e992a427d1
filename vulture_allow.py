"""Names that only somebody outside the package uses, one per line with the reason."""
