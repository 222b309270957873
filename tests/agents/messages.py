"""A model that speaks `POST /v1/messages`, streamed, and uses the tools of Claude Code. See `model.py`."""

import json

from model import serve, text_of


def tool(act):
    """The name of the tool that does it, and its input."""
    if act["act"] == "read":
        return "Read", {"file_path": act["path"]}
    if act["act"] == "write":
        return "Write", {"file_path": act["path"], "content": act["text"]}
    if act["act"] == "edit":
        return "Edit", {"file_path": act["path"], "old_string": act["old"], "new_string": act["new"]}
    return "Bash", {"command": act["command"], "description": "Do the next step"}


def results(request):
    """What the agent tells of the tools it used, in order."""
    parts = (
        part
        for message in request["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
        for part in message["content"]
    )
    return [text_of(part.get("content")) for part in parts if part["type"] == "tool_result"]


def answer(model, request):
    # Without tools it asks for a title or the like.
    act = model.next(results(request)) if request.get("tools") else None
    if act:
        name, value = tool(act)
        block = {"type": "tool_use", "id": f"toolu_{len(results(request)):04}", "name": name}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(value)}]
        begun = {**block, "input": {}}
    else:
        block = {"type": "text", "text": "done"}
        deltas = [{"type": "text_delta", "text": "done"}]
        begun = {"type": "text", "text": ""}
    message = {
        "id": "msg_0001",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    reason = "tool_use" if act else "end_turn"
    if not request.get("stream"):
        whole = {**block, "input": tool(act)[1]} if act else block
        return {**message, "content": [whole], "stop_reason": reason}
    events = [{"type": "message_start", "message": message}]
    events.append({"type": "content_block_start", "index": 0, "content_block": begun})
    events += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    events.append({"type": "content_block_stop", "index": 0})
    events.append(
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 1}}
    )
    events.append({"type": "message_stop"})
    return [(event["type"], event) for event in events]


def count(model, request):
    return {"input_tokens": 1}


serve({"/v1/messages": answer, "/v1/messages/count_tokens": count})
