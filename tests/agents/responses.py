"""A model that speaks `POST /v1/responses`, streamed, and uses the tools of Codex. See `model.py`."""

import json
import shlex

from model import serve, text_of


def command(act):
    """Codex reads and writes by a shell; of its own it has patches only."""
    if act["act"] == "read":
        return f"cat {shlex.quote(act['path'])}"
    if act["act"] == "write":
        return f"printf %s {shlex.quote(act['text'])} > {shlex.quote(act['path'])}"
    return act["command"]


def patch(act):
    return f"*** Begin Patch\n*** Update File: {act['path']}\n@@\n-{act['old']}\n+{act['new']}\n*** End Patch\n"


def results(request):
    items = request["input"] if isinstance(request["input"], list) else []
    outputs = (item["output"] for item in items if item.get("type") in ("function_call_output", "custom_tool_call_output"))
    return [text_of(output) for output in outputs]


def call(act, number, tools):
    """The item that asks for the act by a tool that the agent offers."""
    of = {"type": "function_call", "id": f"fc_{number:04}", "call_id": f"call_{number:04}", "status": "completed"}
    if act["act"] == "edit" and "apply_patch" in tools:
        if tools["apply_patch"] == "custom":
            return {**of, "type": "custom_tool_call", "name": "apply_patch", "input": patch(act)}
        return {**of, "name": "apply_patch", "arguments": json.dumps({"input": patch(act)})}
    line = f"apply_patch <<'EOF'\n{patch(act)}EOF" if act["act"] == "edit" else command(act)
    if "exec_command" in tools:
        return {**of, "name": "exec_command", "arguments": json.dumps({"cmd": line})}
    if "shell_command" in tools:
        return {**of, "name": "shell_command", "arguments": json.dumps({"command": line})}
    return {**of, "name": "shell", "arguments": json.dumps({"command": ["bash", "-lc", line]})}


def answer(model, request):
    known = results(request)
    tools = {tool.get("name"): tool["type"] for tool in request.get("tools") or []}
    act = model.next(known) if tools else None
    if act:
        item = call(act, len(known), tools)
    else:
        content = [{"type": "output_text", "text": "done", "annotations": []}]
        item = {"type": "message", "id": "msg_0001", "role": "assistant", "status": "completed", "content": content}
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    }
    response = {"id": "resp_0001", "object": "response", "model": request["model"], "output": []}
    events = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**response, "status": "completed", "output": [item], "usage": usage}},
    ]
    return [(event["type"], event) for event in events]


serve({"/v1/responses": answer})
