"""Where an exception was raised, for messages to those who wrote the function."""


def said(error: BaseException) -> str:
    """``KeyError: 'size' (in env, framework.py line 12)``: type, text, and the innermost function.

    Where a value of `jobcommon.framework` refused its arguments, that is the function which made the value.
    """
    frame, trace = None, error.__traceback__
    while trace is not None:
        frame = trace if trace.tb_frame.f_globals.get("__name__") != "jobcommon.framework" else frame
        trace = trace.tb_next
    text = f"{type(error).__name__}: {error}"
    if frame is None:
        return text
    code = frame.tb_frame.f_code
    return f"{text} (in {code.co_name}, {code.co_filename.rpartition('/')[2]} line {frame.tb_lineno})"
