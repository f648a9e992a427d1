"""The labeling page: a project in the browser, served by this machine."""

from typing import TYPE_CHECKING

from fewlabels.deferred import imported_when_used

if TYPE_CHECKING:
    from fewlabels.web.app import make_app
    from fewlabels.web.desk import Desk
    from fewlabels.web.guard import Guard
    from fewlabels.web.keys import Keys
    from fewlabels.web.serving import serve
else:
    __getattr__ = imported_when_used(__name__)

__all__ = ["Desk", "Guard", "Keys", "make_app", "serve"]
