"""The addresses of the page and their handlers."""

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from fewlabels.errors import (
    AnswersError,
    DamagedStoreError,
    DataError,
    FewlabelsError,
    StoreAwayError,
    StoreBusyError,
    StoreError,
    UsageError,
)
from fewlabels.projects import labels
from fewlabels.web.background import Background, StateBroadcaster
from fewlabels.web.browse import Browse
from fewlabels.web.messages import Action, Budget, Facts, Import, Name, Review
from fewlabels.web.pictures import SIDES, picture
from fewlabels.web.session import Session
from fewlabels.web.studio import add_studio

mimetypes.add_type("text/javascript", ".js")  # Windows may say otherwise
_KEPT = {"cache-control": "private, max-age=86400, immutable"}
_INTERVAL = 0.1  # seconds between two looks at the state
_SILENCE = 10.0  # seconds after which a comment keeps the connection alive
_MOST_LISTENERS = 50
_STATUS: dict[type[Exception] | tuple[type[Exception], ...], int] = {
    (UsageError, AnswersError): 422,
    DataError: 404,
    (StoreBusyError, StoreAwayError, DamagedStoreError): 503,  # the page sends it again
    StoreError: 409,
    FewlabelsError: 503,
}
"""The answer to an error: that of the first type that it has."""

Task = Literal["features", "training", "final"]


def make_app(
    session: Session, background: Background, broadcaster: StateBroadcaster
) -> FastAPI:
    """Return the application of a project; a :class:`Guard` belongs in front of it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        """Do what goes on behind the page while it is served."""
        if session.is_open:
            broadcaster.open()
        background.begin()
        try:
            yield
        finally:
            broadcaster.close()
            background.close()

    app = FastAPI(
        title="fewlabels",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    app.state.session, app.state.broadcaster = session, broadcaster
    app.state.background = background
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(FewlabelsError, _error)
    browse = app.state.browse = Browse(session, background)
    _add_reading(app, session, browse, broadcaster)
    _add_model(app, session, background, browse)

    async def notify() -> AsyncIterator[None]:
        """Send the new state to all tabs, after a request that wrote something."""
        yield
        broadcaster.notify()

    writing = APIRouter(dependencies=[Depends(notify)])
    add_labeling(writing, session)
    _add_writing(writing, session, browse)
    add_studio(writing, session, background, browse)
    app.include_router(writing)
    return app


def _add_reading(
    app: FastAPI, session: Session, browse: Browse, broadcaster: StateBroadcaster
) -> None:
    listeners: set[EventStream] = set()

    static = StaticFiles(packages=[("fewlabels.web", "static")])
    app.mount("/static", static)

    @app.get("/", include_in_schema=False)
    async def first(request: Request) -> Response:
        return await static.get_response("index.html", request.scope)

    @app.get("/api/images/{name}/{side}")
    def image(name: Name, side: int) -> Response:
        if side not in SIDES:
            raise HTTPException(404, f"Pictures have sides of {SIDES} pixels.")
        file = session.images.file(name)
        if file is None:
            raise HTTPException(404, "There is no such image.")
        kind, content = picture(file, session.project.images_folder, side)
        return Response(content, media_type=kind, headers=_KEPT)

    @app.get("/api/events")
    async def events(request: Request) -> Response:
        return EventStream(_stream_states(broadcaster, request), listeners)

    app.get("/api/project")(session.describe)
    app.post("/api/lease")(session.lease)
    app.post("/api/stay")(session.stay)
    app.post("/api/leave")(session.leave)
    app.get("/api/classes/removed")(session.removed_classes)
    app.get("/api/results")(session.model_status)
    app.get("/api/people")(session.people_status)
    app.post("/api/browse")(browse.page)
    app.post("/api/map")(browse.map)
    app.post("/api/history")(browse.history)


def _add_writing(app: APIRouter, session: Session, browse: Browse) -> None:
    @app.post("/api/import")
    def import_labels(
        wish: Annotated[Import, Query()],
        content: Annotated[bytes, Body(media_type="application/octet-stream")] = b"",
    ) -> Facts:
        return session.import_labels(wish, content)

    app.post("/api/change")(browse.change)
    app.post("/api/classes")(session.show_classes)
    app.post("/api/classes/change")(session.change_class)
    app.post("/api/import/undo")(session.undo_import)


def add_labeling(app: APIRouter, session: Session) -> None:
    """Add the route by which people label."""

    @app.post("/api/act")
    def act(action: Action) -> Facts:
        """Store an action of a person; the same one again changes nothing."""
        project, verb, name = session.project, action.verb, action.name
        if verb == "add_class":
            added = labels.add_classes(project, [name or ""], uuid=action.uuid)
            return {"classes": added}
        how: Facts = {"annotator": action.annotator, "uuid": action.uuid}
        if verb == "undo":
            done = labels.undo(project, target=action.target, token=action.tab, **how)
            shown = session.shown([str(done.item)])
            return {"saved": done.sequence, "item": shown[0] if shown else None}
        if action.item is None:
            raise UsageError(f"The action '{verb}' needs an image.")
        item = session.images.item(action.item)
        if item is None:
            raise UsageError("There is no such image in this project any more.")
        if verb in {"skip", "unsure", "label"}:
            how["in_turn"] = True  # a tab that slept may have lost the image
        if verb == "change":
            done = labels.change(project, item, name, **how)
        elif verb == "repeat":
            done = labels.change(project, item, name or "", is_repeat=True, **how)
        elif verb == "skip":
            done = labels.skip(project, item, **how)
        elif verb == "unsure":
            done = labels.unsure(project, item, **how)
        elif name is None:
            raise UsageError("A label needs the name of a class.")
        else:
            how["lead_time"] = action.lead_time
            done = labels.label(project, item, name, **how)
        return {"saved": done.sequence}


def _add_model(
    app: FastAPI, session: Session, background: Background, browse: Browse
) -> None:
    def starting(work: Callable[[], object]) -> Callable[[], Facts]:
        def start() -> Facts:
            work()
            return background.status()

        return start

    app.get("/api/jobs")(background.status)
    jobs: dict[str, Callable[[], object]] = {
        "round": background.choose_again,
        "random-round": partial(background.choose_again, at_random=True),
        "train": background.train,
        "export": background.export,
        "export-as-is": partial(background.export, as_is=True),
    }
    for name in ("features", "estimate", "final"):
        jobs[name] = partial(background.start, name)
    for name, work in jobs.items():
        app.post(f"/api/{name}", name=name)(starting(work))

    @app.post("/api/cancel/{task}")
    def cancel(task: Task) -> Facts:
        background.cancel(task)
        return background.status()

    @app.post("/api/budget")
    def set_budget(wish: Budget) -> Facts:
        changed = session.set_budget(wish)
        if background.status()["round"]["status"] in {"finished", "failed"}:
            background.choose_again()
        background.on_change()
        return changed

    @app.post("/api/review")
    def review_images(wish: Review) -> Facts:
        like = None if wish.like is None else session.images.item(wish.like)
        given = {"tab", "annotator", "like", "without", "region"}
        conditions = wish.model_dump(exclude=given)
        conditions["without"] = session.images.items(wish.without)
        conditions["among"] = browse.inside(wish.region) if wish.region else None
        answer = background.ask("review", like=like, **conditions)
        alike = [] if like is None else session.tiles([{"item": like}])
        return {**answer, "tiles": session.tiles(answer["tiles"]), "like": alike}

    @app.get("/api/second-looks")
    def second_looks() -> Facts:
        if not background.is_ready:
            return {"slips": None, "doubts": [], "reason": background.why_not_ready}
        looks = background.ask("second_looks")
        slips = None if looks["slips"] is None else session.tiles(looks["slips"])
        return {**looks, "slips": slips, "doubts": session.tiles(looks["doubts"])}


class EventStream(StreamingResponse):
    """A stream of events, for a limited number of listeners."""

    def __init__(
        self, content: AsyncIterator[str], listeners: set["EventStream"]
    ) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._listeners = listeners

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send events; nothing happens between the check and the registration."""
        if len(self._listeners) >= _MOST_LISTENERS:
            raise HTTPException(503, "Too many tabs listen already; close some.")
        self._listeners.add(self)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._listeners.discard(self)


async def _stream_states(
    broadcaster: StateBroadcaster, request: Request
) -> AsyncIterator[str]:
    """Yield each new state as an event, and a comment after a silence."""
    seen, silent = 0, 0.0
    while not broadcaster.is_closed and not await request.is_disconnected():
        version, text = broadcaster.latest
        if version != seen:
            seen, silent = version, 0.0
            yield f"id: {version}\ndata: {text}\n\n"
        elif silent > _SILENCE:
            silent = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(_INTERVAL)
        silent += _INTERVAL


# ------------------------------------------------------------------------------ errors


async def _error(_: Request, error: Any) -> Response:
    status = next(code for kind, code in _STATUS.items() if isinstance(error, kind))
    return JSONResponse({"error": str(error)}, status)


async def _http_error(_: Request, error: Any) -> Response:
    return JSONResponse({"error": str(error.detail)}, error.status_code)


async def _invalid(_: Request, error: Any) -> Response:
    """Return what is wrong with a request, without repeating its content."""
    parts = [
        f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
        for fault in error.errors()[:5]
    ]
    text = "; ".join(parts).encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": f"The request cannot be right: {text}."}, 422)
