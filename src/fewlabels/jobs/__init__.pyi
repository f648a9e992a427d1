from .cluster import RayExecutor as RayExecutor
from .events import Event as Event, Replay as Replay
from .events import Sender as Sender, startable as startable
from .processes import Executor as Executor, Job as Job
from .processes import LocalExecutor as LocalExecutor, Worker as Worker
from .processes import error_of as error_of, start as start
