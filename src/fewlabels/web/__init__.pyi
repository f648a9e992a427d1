from .app import make_app as make_app
from .guard import Guard as Guard, Keys as Keys
from .server import serve as serve
from .session import Session as Session
