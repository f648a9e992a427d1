from .derived import repeated as repeated, subset as subset
from .loading import load as load
from .loading import names as names
