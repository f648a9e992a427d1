"""One job: a call in a process of its own, told of in events.

What is called is text (``"module:function"`` and arguments that JSON can hold), and so
is all that comes back. A job may be canceled or killed at any moment; whatever it does
keeps its state in files, and the same job goes on from there.
"""

from fewlabels.jobs.events import Event, Replay, Sender
from fewlabels.jobs.permission import startable
from fewlabels.jobs.processes import Job, Worker, error_of, start, words_for_death

__all__ = [
    "Event",
    "Job",
    "Replay",
    "Sender",
    "Worker",
    "error_of",
    "start",
    "startable",
    "words_for_death",
]
