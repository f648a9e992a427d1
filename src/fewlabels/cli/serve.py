"""``fewlabels serve``: an exported model over HTTP."""

from pathlib import Path

from fewlabels.cli.options import Port, Quiet, Token
from fewlabels.names import check_installed


def serve(
    model: Path,
    *,
    host: str = "127.0.0.1",
    port: Port = None,
    token: Token = None,
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
