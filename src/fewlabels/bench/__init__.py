<<<<<<< HEAD
"""Experiments: recipes, a runner that resumes, engines, results."""
=======
"""Comparisons of strategies over seeds, and what the paper printed."""
>>>>>>> stats
