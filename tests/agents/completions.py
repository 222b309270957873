"""A model that speaks `POST /v1/chat/completions`, streamed, and uses the tools of OpenCode, or the blocks of aider, which
has no tools. See `model.py`."""

import json

from model import serve, text_of


def tool(act):
    """The name of the tool that does it, and its input."""
    if act["act"] == "read":
        return "read", {"filePath": act["path"]}
    if act["act"] == "write":
        return "write", {"filePath": act["path"], "content": act["text"]}
    if act["act"] == "edit":
        return "edit", {"filePath": act["path"], "oldString": act["old"], "newString": act["new"]}
    return "bash", {"command": act["command"], "description": "Do the next step"}


def results(request):
    """What the agent tells of what it did, in order. Who has no tools tells it as a question: the first is the task itself, and
    what stands before it is an example."""
    if request.get("tools"):
        return [text_of(message["content"]) for message in request["messages"] if message["role"] == "tool"]
    questions = [text_of(message["content"]) for message in request["messages"] if message["role"] == "user"]
    return questions[questions.index(model_task(questions)) + 1 :]


def model_task(questions):
    return next((question for question in questions if question.startswith("Do the next step")), questions[-1])


def block(act):
    name = act["path"].rsplit("/", 1)[-1]
    return f"{name}\n```\n<<<<<<< SEARCH\n{act['old']}\n=======\n{act['new']}\n>>>>>>> REPLACE\n```\n"


def answer(model, request):
    has_blocks = any("SEARCH/REPLACE" in text_of(message["content"]) for message in request["messages"])
    act = model.next(results(request)) if request.get("tools") or has_blocks else None
    if act and request.get("tools"):
        name, value = tool(act)
        function = {"name": name, "arguments": json.dumps(value)}
        call = {"index": 0, "id": f"call_{len(results(request)):04}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    else:
        message = {"role": "assistant", "content": block(act) if act else "done"}
    reason = "tool_calls" if "tool_calls" in message else "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    of = {"id": "chatcmpl-0001", "created": 1, "model": request["model"]}
    if not request.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {**of, "object": "chat.completion", "choices": [choice], "usage": usage}
    of["object"] = "chat.completion.chunk"
    chunks = [
        {**of, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**of, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]
    return [(None, chunk) for chunk in chunks] + [(None, "[DONE]")]


serve({"/v1/chat/completions": answer})
