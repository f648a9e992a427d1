"""Experiments: recipes, a runner that resumes, engines, results."""
