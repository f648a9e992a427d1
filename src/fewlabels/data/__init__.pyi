from .derived import repeated as repeated, subset as subset
from .loading import load as load
from .named import names as names
