"""``fewlabels serve``: an exported model over HTTP."""

from pathlib import Path
from typing import Annotated

from typer import Option

from fewlabels.cli.options import Quiet
from fewlabels.names import check_installed


def serve(
    model: Path,
    *,
    host: str = "127.0.0.1",
    port: Annotated[
        int | None, Option(min=1, max=65535, help="[default: by the folder]")
    ] = None,
    token: Annotated[
        str | None,
        Option(
            envvar="FEWLABELS_TOKEN",
            help="What programs sign in with. Other users of this machine can see the "
            "options of a running command, so set the variable FEWLABELS_TOKEN "
            "instead. [default: a new one]",
        ),
    ] = None,
    terminal: Quiet,
) -> None:
    """Classify the images that other programs send by HTTP, with an exported model.

    Each request has one image as its body and the token in its header Authorization.
    Stop it with Ctrl-C.

    Options:
        model: Folder of an exported model.
        host: Address to listen at; others need --token.
    """
    check_installed("Serving", "fastapi", "uvicorn", install="fewlabels[page]")
    from fewlabels.web.serving import serve_model

    def ready(address: str, key: str) -> None:
        # Even if quiet: without the token there is no way in.
        terminal.out.print(f"Classifying at {address}", soft_wrap=True)
        curl = f'curl -H "Authorization: Bearer {key}" --data-binary @photo.jpg'
        terminal.out.print(f"Try: {curl} {address}", soft_wrap=True)

    serve_model(model, host=host, port=port, token=token, on_ready=ready)
