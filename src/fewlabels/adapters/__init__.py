"""Other libraries of active learning: our strategies there, and theirs here.

None of them is needed by the rest of the package; an adapter is imported by its name.
"""
