"""The addresses of the page, and what answers them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Query, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException

from fewlabels.errors import (
    DamagedStoreError,
    DataError,
    FewlabelsError,
    StoreAwayError,
    StoreBusyError,
    StoreError,
    UsageError,
)
from fewlabels.projects.labels import named
from fewlabels.web.agreement import people
from fewlabels.web.background import Background
from fewlabels.web.board import Board
from fewlabels.web.desk import Desk, Facts
from fewlabels.web.messages import (
    Action,
    Confirmation,
    Import,
    ImportUndo,
    Letters,
    Turn,
    Wall,
)
from fewlabels.web.pictures import SIDES, picture
from fewlabels.web.standing import standing
from fewlabels.web.studio import add_studio

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_KEPT = {"cache-control": "private, max-age=86400, immutable"}
_LOOK = 0.1  # seconds between two looks at the board
_SILENCE = 10.0  # seconds after which a sign of life is sent
_MOST_LISTENERS = 50

Image = Annotated[str, InPath(pattern=r"^[0-9a-f]{24}$")]
Task = Literal["features", "training", "final"]


def make_app(desk: Desk, background: Background, board: Board) -> FastAPI:
    """Return the application of a project; a :class:`Guard` belongs in front of it."""

    @asynccontextmanager
    async def alive(_: FastAPI) -> AsyncIterator[None]:
        if desk.is_open:
            board.open()
        background.begin()
        try:
            yield
        finally:
            board.close()
            background.close()

    app = FastAPI(
        title="fewlabels",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=alive,
    )
    app.state.desk, app.state.background, app.state.board = desk, background, board
    _add_errors(app)
    _add_pages(app)
    _add_looking(app, desk, board)
    _add_labeling(app, desk)
    _add_imports(app, desk)
    _add_work(app, background)
    _add_wall(app, desk, background)
    add_studio(app, desk, background)
    return app


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def first() -> Response:
        return _static("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        return _static(name)


def _add_looking(app: FastAPI, desk: Desk, board: Board) -> None:
    listeners: set[EventStream] = set()

    @app.get("/api/project")
    def project() -> Facts:
        return _described(desk)

    @app.get("/api/events")
    async def events(request: Request) -> Response:
        return EventStream(_stream_states(board, request), listeners)

    @app.get("/api/images/{name}/{side}")
    def image(name: Image, side: int) -> Response:
        if side not in SIDES:
            raise HTTPException(404, f"Pictures have sides of {SIDES} pixels.")
        file = desk.gallery.file(name)
        if file is None:
            raise HTTPException(404, "There is no such image.")
        found = picture(file, desk.project.images_folder, side)
        return Response(found.content, media_type=found.media_type, headers=_KEPT)


def _add_labeling(app: FastAPI, desk: Desk) -> None:
    @app.post("/api/lease")
    def lease(turn: Turn) -> Facts:
        return desk.lease(turn)

    @app.post("/api/stay")
    def stay(turn: Turn) -> Facts:
        return desk.stay(turn)

    @app.post("/api/leave")
    def leave(turn: Turn) -> Facts:
        return desk.leave(turn)

    @app.post("/api/act")
    def act(action: Action) -> Facts:
        return desk.act(action)

    @app.post("/api/letters")
    def letters(given: Letters) -> Facts:
        return desk.letters(given)


def _add_imports(app: FastAPI, desk: Desk) -> None:
    @app.post("/api/import")
    def import_labels(
        wish: Annotated[Import, Query()],
        content: Annotated[bytes, Body(media_type="application/octet-stream")],
    ) -> Facts:
        return desk.import_labels(wish, content)

    @app.post("/api/import/undo")
    def undo_import(wish: ImportUndo) -> Facts:
        return desk.undo_import(wish)


def _add_work(app: FastAPI, background: Background) -> None:
    @app.get("/api/jobs")
    def jobs() -> Facts:
        return background.told()

    @app.post("/api/round")
    def choose_again() -> Facts:
        background.choose_again()
        return background.told()

    @app.post("/api/random-round")
    def choose_at_random() -> Facts:
        background.choose_again(at_random=True)
        return background.told()

    @app.post("/api/features")
    def go_on() -> Facts:
        background.prepare()
        return background.told()

    @app.post("/api/train")
    def train() -> Facts:
        background.train()
        return background.told()

    @app.post("/api/estimate")
    def estimate() -> Facts:
        background.estimate()
        return background.told()

    @app.post("/api/final")
    def train_finally() -> Facts:
        background.train_finally()
        return background.told()

    @app.post("/api/export")
    def export() -> Facts:
        background.export()
        return background.told()

    @app.post("/api/export-as-is")
    def export_as_is() -> Facts:
        background.export(as_is=True)
        return background.told()

    @app.post("/api/cancel/{task}")
    def cancel(task: Task) -> Facts:
        background.cancel(task)
        return background.told()


def _add_wall(app: FastAPI, desk: Desk, background: Background) -> None:
    @app.post("/api/wall")
    def wall(wish: Wall) -> Facts:
        like = None if wish.like is None else desk.gallery.item(wish.like)
        passed = [desk.gallery.item(name) for name in wish.without]
        found = background.ask(
            "wall",
            name=wish.name,
            order=wish.order,
            like=like,
            count=wish.count,
            without=[item for item in passed if item is not None],
        )
        return {**found, "tiles": desk.tiles(found["tiles"])}

    @app.post("/api/confirm")
    def confirm(given: Confirmation) -> Facts:
        return desk.confirm(given)

    @app.get("/api/standing")
    def stand() -> Facts:
        return standing(desk.project)

    @app.get("/api/people")
    def agreement() -> Facts:
        found = people(desk.project)
        return {**found, "apart": desk.tiles(found["apart"])}

    @app.get("/api/second-looks")
    def second_looks() -> Facts:
        if not background.is_ready:
            reason = background.why_not_ready
            return {"slips": None, "doubts": [], "reason": reason}
        looks = background.ask("second_looks")
        slips = None if looks["slips"] is None else desk.tiles(looks["slips"])
        return {**looks, "slips": slips, "doubts": desk.tiles(looks["doubts"])}


def _described(desk: Desk) -> Facts:
    """Return what does not change while the page is open."""
    project = desk.project
    folder = project.images_folder.resolve()
    return {
        "name": folder.name,
        "identity": desk.gallery.name_of("project"),
        "query": project.settings.query,
        "trainer": project.settings.trainer.name,
        "strategy": project.settings.strategy.name,
        "overlap": project.settings.overlap,
        "user": named(None),  # whoever gives no other name
    }


class EventStream(StreamingResponse):
    """An answer that goes on while somebody listens, for a limited number of them."""

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


async def _stream_states(board: Board, request: Request) -> AsyncIterator[str]:
    """Yield each new state as an event, and a sign of life now and then."""
    seen, silent = 0, 0.0
    while not board.is_closed and not await request.is_disconnected():
        version, text = board.latest
        if version != seen:
            seen, silent = version, 0.0
            yield f"id: {version}\ndata: {text}\n\n"
        elif silent > _SILENCE:
            silent = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(_LOOK)
        silent += _LOOK


# ------------------------------------------------------------------------ files, errors


@cache
def _files() -> dict[str, bytes]:
    """Return the files of the page by name: no request becomes a path."""
    folder = files("fewlabels.web") / "static"
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}


def _static(name: str) -> Response:
    content = _files().get(name)
    kind = _KINDS.get(f".{name.rpartition('.')[2]}")
    if content is None or kind is None:
        raise HTTPException(404, "There is no such file.")
    return Response(content, headers={"content-type": kind})


def _add_errors(app: FastAPI) -> None:
    def answer(status: int) -> Callable[[Request, Any], Awaitable[Response]]:
        async def told(request: Request, error: Any) -> Response:
            del request
            text = error.detail if isinstance(error, HTTPException) else str(error)
            code = error.status_code if isinstance(error, HTTPException) else status
            return JSONResponse({"error": str(text)}, code)

        return told

    app.add_exception_handler(HTTPException, answer(500))
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(UsageError, answer(422))
    app.add_exception_handler(DataError, answer(404))
    for later in (StoreBusyError, StoreAwayError, DamagedStoreError):
        app.add_exception_handler(later, answer(503))  # the page sends it again
    app.add_exception_handler(StoreError, answer(409))
    app.add_exception_handler(FewlabelsError, answer(503))


async def _invalid(request: Request, error: Any) -> Response:
    """Say what is wrong with a request, without repeating what it said."""
    del request
    parts = [
        f"{'.'.join(str(one) for one in fault['loc'])}: {fault['msg']}"
        for fault in error.errors()[:5]
    ]
    text = "; ".join(parts).encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": f"The request cannot be right: {text}."}, 422)
