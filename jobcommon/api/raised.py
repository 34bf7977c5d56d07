"""Where an exception was raised, for messages to those who wrote the function."""


def said(error: BaseException) -> str:
    """``KeyError: 'size' (in env, framework.py line 12)``: type, text, and the innermost function."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    text = f"{type(error).__name__}: {error}"
    if frame is None:
        return text
    code = frame.tb_frame.f_code
    return f"{text} (in {code.co_name}, {code.co_filename.rpartition('/')[2]} line {frame.tb_lineno})"
