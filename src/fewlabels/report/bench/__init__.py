"""The report of an experiment: a page, figures, and tables for a paper."""
