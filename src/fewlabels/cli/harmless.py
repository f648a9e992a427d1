"""Text that no terminal obeys: names of files and classes may be a stranger's."""

_CONTROLS = {*range(0x20), 0x7F, *range(0x80, 0xA0)} - {ord("\n"), ord("\t")}
_REORDERING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_VISIBLE = {code: f"\\u{code:04x}" for code in _CONTROLS | _REORDERING}


def harmless(text: str) -> str:
    r"""Return text with what would move the cursor, or letters, made visible.

    Line breaks and tabs are left. Inside JSON the result means the same as the text.

    Example:
        >>> print(harmless("cat\x1b[2J"))
        cat\u001b[2J
    """
    return text.translate(_VISIBLE)
