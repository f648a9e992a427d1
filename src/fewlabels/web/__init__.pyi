from .app import make_app as make_app
from .desk import Desk as Desk
from .guard import Guard as Guard
from .keys import Keys as Keys
from .serving import serve as serve
