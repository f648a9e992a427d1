"""Comparisons of strategies over seeds, and what the paper printed."""
