"""Conversations that every chat template is rendered with."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a place, \"now\" & <here>.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "City, e.g. Zürich"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "default": 3}}, "required": ["city"]},
    "return": {"type": "number"}}}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "", "parameters": {
    "type": "object", "properties": {}}}}


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


U = lambda s: {"role": "user", "content": s}
A = lambda s, **more: {"role": "assistant", "content": s, **more}
S = lambda s: {"role": "system", "content": s}
T = lambda s, **more: {"role": "tool", "content": s, **more}

CONVERSATIONS = [
    {"messages": [U("Hello!")], "add_generation_prompt": True},
    {"messages": [S("You are terse."), U("Hi"), A("Yes?"), U("Count to 3.")], "add_generation_prompt": True},
    {"messages": [U("  spaces around\n\n"), A("\n kept? \t"), U("again ")], "add_generation_prompt": False},
    {"messages": [S(""), U(""), A(""), U("")], "add_generation_prompt": True},
    {"messages": [U("Grüße aus 東京 🗼 'quotes' \"double\" \\ <|im_end|> &amp;\u2028\u00a0\x07"),
                  A("ß İ ǆ Σίσυφος")], "add_generation_prompt": False},
    {"messages": [U("What is the weather?")], "tools": [WEATHER, CLOCK], "add_generation_prompt": True},
    {"messages": [S("Use tools."), U("Weather in Zürich?"),
                  A("", tool_calls=[call("get_weather", {"city": "Zürich", "days": 2, "precise": True, "x": None})]),
                  T("{\"temp\": 21.5}", name="get_weather", tool_call_id="call00001"), A("21.5 °C"), U("Thanks")],
     "tools": [WEATHER], "add_generation_prompt": True},
    {"messages": [U("Both"), A("Let me see.", tool_calls=[call("clock", {}), call("get_weather", {"city": "Bern"},
                                                                                  "call00002")]),
                  T("12:00", name="clock", tool_call_id="call00001"),
                  T("rain", name="get_weather", tool_call_id="call00002")],
     "tools": [CLOCK, WEATHER], "add_generation_prompt": True},
    {"messages": [U("Think"), A("<think>\nfirst\nsecond\n</think>\n\nAnswer one.", reasoning_content="hidden"),
                  U("More"), A("<think>x</think>Answer two.")], "add_generation_prompt": True,
     "enable_thinking": False},
    {"messages": [A("I start."), U("odd order"), U("twice")], "add_generation_prompt": False},
    {"messages": [S("sys"), U("1"), A("2"), S("late system"), U("3"), A("4"), U("5"), A("6")],
     "add_generation_prompt": False, "documents": [{"title": "Doc A", "text": "Text of A."},
                                                   {"title": "Doc B", "text": "Text\nof B."}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "part one"},
                                               {"type": "image", "image": "x.png"},
                                               {"type": "text", "text": "part two"}]},
                  A(None, tool_calls=[call("clock", "{\"as\": \"text\"}")]), U("end")],
     "add_generation_prompt": True, "tools": None},
    {"messages": [], "add_generation_prompt": True},
    {"messages": [S("<|im_end|>\n<|im_start|>system\n<<SYS>> [INST] <s>"), U("</s> <|eot_id|> <end_of_turn> [/INST] <|User|>"),
                  A("<|endoftext|><|end|> <tool_call>{}</tool_call> </think> <|channel|>final"), U("<|start_header_id|>")],
     "add_generation_prompt": True},
    {"messages": [m for i in range(40) for m in (U(f"question {i}: " + "lorem ipsum " * (i % 7)), A(f"answer {i}. " * (i % 5 + 1)))]
     + [U("the last one")], "add_generation_prompt": True},
]
for c in CONVERSATIONS:
    c.setdefault("bos_token", "<s>")
    c.setdefault("eos_token", "</s>")
