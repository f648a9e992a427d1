from .cluster import RayExecutor as RayExecutor
from .events import (
    Event as Event,
    Replay as Replay,
    Sender as Sender,
    startable as startable,
)
from .processes import (
    Executor as Executor,
    Job as Job,
    LocalExecutor as LocalExecutor,
    Worker as Worker,
    error_of as error_of,
    start as start,
)
