"""Chat templates of model families, written for these tests from the families' public descriptions of their prompt
formats (model cards, tokenizer documentation), each with the idioms that its makers like. Rendered with every
conversation of conversations.py beside those of styles.py."""

FAMILIES = {}


def family(name, text):
    FAMILIES[name] = text


family("mistral_tekken", r"""
{%- set date = strftime_now("%Y-%m-%d") -%}
{%- set system = "Today is " + date + "." -%}
{{- bos_token -}}
{%- if messages and messages[0]["role"] == "system" -%}
    {%- set system = messages[0]["content"] -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set rest = messages -%}
{%- endif -%}
[SYSTEM_PROMPT]{{ system if system is string else system | map(attribute="text") | join }}[/SYSTEM_PROMPT]
{%- for m in rest -%}
    {%- if m["role"] == "user" -%}
        {%- if m["content"] is string -%}
            [INST]{{ m["content"] }}[/INST]
        {%- else -%}
            [INST]{%- for part in m["content"] -%}
                {%- if part["type"] == "text" -%}{{ part["text"] }}
                {%- elif part["type"] in ("image", "image_url") -%}[IMG]
                {%- else -%}{{ raise_exception("only text and images") }}{%- endif -%}
            {%- endfor -%}[/INST]
        {%- endif -%}
    {%- elif m["role"] == "assistant" -%}
        {%- if m.tool_calls is defined and m.tool_calls -%}
            {%- for c in m.tool_calls -%}
                {{- "[TOOL_CALLS]" ~ c.function.name ~ "[ARGS]" -}}
                {{- c.function.arguments if c.function.arguments is string else c.function.arguments | tojson -}}
            {%- endfor -%}
        {%- else -%}{{- m["content"] -}}{%- endif -%}
        {{- eos_token -}}
    {%- elif m["role"] == "tool" -%}
        [TOOL_RESULTS]{{ m.tool_call_id | default("", true) }}[TOOL_CONTENT]{{ m["content"] }}[/TOOL_RESULTS]
    {%- elif m["role"] == "system" -%}
        [SYSTEM_PROMPT]{{ m["content"] }}[/SYSTEM_PROMPT]
    {%- else -%}
        {{- raise_exception("Only user, system, tool and assistant roles are supported, not " ~ m["role"]) -}}
    {%- endif -%}
{%- endfor -%}
""")

family("deepseek_v2", r"""{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ 'User: ' + (m['content'] if m['content'] is string else m['content']|map(attribute='type')|join(',')) + '\n\n' }}{% elif m['role'] == 'assistant' %}{{ 'Assistant: ' ~ m['content'] ~ eos_token }}{% elif m['role'] == 'system' %}{{ m['content'] + '\n\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}""")

family("deepseek_v3", r"""
{%- set ns = namespace(system='', n_system=0, after_tool=false) -%}
{%- for m in messages if m.role == 'system' -%}
    {%- set ns.system = m.content if not ns.n_system else ns.system ~ '\n\n' ~ m.content -%}
    {%- set ns.n_system = ns.n_system + 1 -%}
{%- endfor -%}
{{- bos_token ~ ns.system -}}
{%- for m in messages -%}
    {%- if m.role == 'user' -%}
        {%- set ns.after_tool = false -%}
        <|User|>{{ m.content if m.content is string else m.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join(' ') }}
    {%- elif m.role == 'assistant' and m.tool_calls is defined and m.tool_calls is not none -%}
        <|Assistant|>{{ m.content or '' }}
        {%- for call in m.tool_calls -%}
            {%- if loop.first -%}<|tool_calls_begin|>{%- else %}
{% endif -%}
            <|tool_call_begin|>{{ call.type }}<|tool_sep|>{{ call.function.name }}
```json
{{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
```<|tool_call_end|>
            {%- if loop.last -%}<|tool_calls_end|><|end_of_sentence|>{%- endif -%}
        {%- endfor -%}
    {%- elif m.role == 'assistant' -%}
        {{- ('<|tool_outputs_end|>' if ns.after_tool else '<|Assistant|>') ~ m.content ~ '<|end_of_sentence|>' -}}
        {%- set ns.after_tool = false -%}
    {%- elif m.role == 'tool' -%}
        {{- '<|tool_outputs_begin|>' if not ns.after_tool else '\n' -}}
        {%- set ns.after_tool = true -%}
        <|tool_output_begin|>{{ m.content }}<|tool_output_end|>
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and not ns.after_tool -%}<|Assistant|>{%- endif -%}
""")

family("deepseek_r1", r"""{{ bos_token }}{% for m in messages %}{% set text = m['content'] if m['content'] is string else '' %}{% if m['role'] == 'system' and loop.first %}{{ text }}{% elif m['role'] == 'user' %}{{ '<|User|>' + text }}{% elif m['role'] == 'assistant' %}{% set said = (text.split('</think>')|last).lstrip('\n') if '</think>' in text else text %}{{ '<|Assistant|>' + said + '<|end_of_sentence|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|Assistant|><think>\n' }}{% endif %}""")

family("qwen25_tools", r"""
{%- set has_system = messages and messages[0].role == 'system' -%}
{%- if tools %}
    {{- '<|im_start|>system\n' ~ (messages[0].content if has_system else 'You help.') }}
    {{- '\n\n# Tools\n\nFunctions, as JSON between the tags:\n<tools>' }}
    {%- for t in tools %}{{ '\n' ~ t | tojson }}{% endfor %}
    {{- '\n</tools>\n\nAnswer a call with\n<tool_call>\n{"name": <name>, "arguments": <json>}\n</tool_call><|im_end|>\n' }}
{%- else %}
    {{- '<|im_start|>system\n' ~ (messages[0].content if has_system else 'You help.') ~ '<|im_end|>\n' }}
{%- endif %}
{%- for m in messages %}
    {%- if (m.role == 'user') or (m.role == 'system' and not loop.first) or (m.role == 'assistant' and not m.tool_calls) %}
        {{- '<|im_start|>' + m.role + '\n' ~ m.content ~ '<|im_end|>\n' }}
    {%- elif m.role == 'assistant' %}
        {{- '<|im_start|>' + m.role }}
        {%- if m.content %}{{ '\n' + m.content }}{% endif %}
        {%- for c in m.tool_calls %}
            {%- set f = c.function if c.function is defined else c %}
            {{- '\n<tool_call>\n{"name": "' ~ f.name ~ '", "arguments": ' ~ f.arguments | tojson ~ '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif m.role == 'tool' %}
        {%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
        {{- '\n<tool_response>\n' ~ m.content ~ '\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
""")

family("qwen3_coder", r"""
{%- macro extra_keys(d, handled) -%}
    {%- for k in d if k not in handled -%}
        {{- '\n<' ~ k ~ '>' ~ (d[k] | tojson if d[k] is mapping or (d[k] is sequence and d[k] is not string) else d[k] | string) ~ '</' ~ k ~ '>' -}}
    {%- endfor -%}
{%- endmacro -%}
{%- if tools is iterable and tools | length > 0 -%}
<|im_start|>system
<tools>
    {%- for t in tools -%}
        {%- set f = t.function | default(t) -%}
        {{- '\n<function>\n<name>' ~ f.name ~ '</name>' -}}
        {%- if f.description is defined -%}{{ '\n<description>' ~ f.description | trim ~ '</description>' }}{%- endif -%}
        {%- for name, p in f.parameters.properties | items -%}
            {{- '\n<parameter>\n<name>' ~ name ~ '</name>' ~ ('\n<type>' ~ p.type | string ~ '</type>' if p.type is defined) ~ extra_keys(p, ['type', 'name']) ~ '\n</parameter>' -}}
        {%- endfor -%}
        {{- extra_keys(f.parameters, ['type', 'properties']) ~ '\n</function>' -}}
    {%- endfor %}

</tools><|im_end|>
{% endif -%}
{%- for m in messages %}
<|im_start|>{{ m.role }}
{% if m.content is string %}{{ m.content | trim }}{% elif m.content is iterable and m.content is not none %}{% for p in m.content %}{{ p.text | default('[' ~ p.type ~ ']') }}{% endfor %}{% endif %}
{%- for c in m.tool_calls or [] %}

<tool_call>
<function={{ c.function.name }}>
{%- if c.function.arguments is mapping %}{% for k, v in c.function.arguments | items %}

<parameter={{ k }}>
{{ v | tojson | safe if v is mapping else v | string }}
</parameter>
{%- endfor %}{% endif %}

</function>
</tool_call>
{%- endfor %}<|im_end|>
{%- endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
""")

family("gpt_oss", r"""
{#- a channel format, tools as TypeScript -#}
{%- macro type_of(p, required) -%}
    {%- if p.type == 'array' -%}
        {%- if p['items'] -%}{{ type_of(p['items'], []) }}[]{%- else -%}any[]{%- endif -%}
    {%- elif p.type is defined and p.type is iterable and p.type is not string and p.type[0] is defined -%}{{ p.type | join(' | ') }}
    {%- elif p.oneOf -%}
        {%- for v in p.oneOf -%}{{ type_of(v, []) }}{{ ' | ' if not loop.last }}{%- endfor -%}
    {%- elif p.type == 'string' -%}
        {%- if p.enum -%}{{ '"' ~ p.enum | join('" | "') ~ '"' }}{%- else -%}string{{ ' | null' if p.nullable }}{%- endif -%}
    {%- elif p.type in ['number', 'integer'] -%}number
    {%- elif p.type == 'boolean' -%}boolean
    {%- elif p.type == 'object' and p.properties -%}
{
{% for k, v in p.properties.items() -%}
{{ k }}{{ '?' if k not in (p.required or []) }}: {{ type_of(v, p.required or []) }}{{ ', ' if not loop.last }}
{%- endfor %}
}
    {%- else -%}any{%- endif -%}
{%- endmacro -%}
{%- macro namespace_of(name, tools) -%}
{{ '## ' ~ name ~ '\n\nnamespace ' ~ name ~ ' {\n\n' }}
{%- for t in tools -%}
{%- set t = t.function -%}
{{ '// ' ~ t.description ~ '\ntype ' ~ t.name ~ ' = ' }}
{%- if t.parameters and t.parameters.properties -%}
(_: {
{% for k, v in t.parameters.properties.items() -%}
{% if v.description %}// {{ v.description }}
{% endif %}{{ k }}{{ '?' if not t.parameters.required or k not in t.parameters.required }}: {{ type_of(v, t.parameters.required or []) }}
{%- if v.default is defined %}{{ ', // default: ' ~ (v.default if v.default is not string else '"' ~ v.default ~ '"') }}{% else %},{% endif %}

{% endfor -%}
}) => any;
{%- else -%}() => any;{%- endif %}


{% endfor -%}
{{ '} // namespace ' ~ name }}
{%- endmacro -%}
{%- macro system_text() -%}
Knowledge cutoff: 2024-06
Current date: {{ strftime_now('%Y-%m-%d') }}

Reasoning: {{ reasoning_effort | default('medium') }}

# Valid channels: analysis, commentary, final.
{%- if tools %}

Calls to these tools go to the commentary channel: 'functions'.{% endif %}
{%- endmacro -%}
<|start|>system<|message|>{{ system_text() }}<|end|>
{%- set developer = messages[0].content if messages and messages[0].role in ['developer', 'system'] else '' -%}
{%- set turns = messages[1:] if messages and messages[0].role in ['developer', 'system'] else messages -%}
{%- if developer or tools -%}
<|start|>developer<|message|>{% if developer %}# Instructions

{{ developer }}{% endif %}{% if tools %}{{ '\n\n' if developer }}# Tools

{{ namespace_of('functions', tools) }}{% endif %}<|end|>
{%- endif -%}
{%- set last = namespace(name=none) -%}
{%- for m in turns -%}
    {%- if m.role == 'assistant' -%}
        {%- if 'content' in m and m.content is string and '<|channel|>analysis' in m.content -%}{{ raise_exception('a channel tag in the content') }}{%- endif -%}
        {%- if m.tool_calls -%}
            {%- if m.content %}{{ '<|start|>assistant<|channel|>analysis<|message|>' ~ m.content ~ '<|end|>' }}{% endif -%}
            {%- set call = m.tool_calls[0].function -%}
            {%- set last.name = call.name -%}
            {{- '<|start|>assistant to=functions.' ~ call.name ~ '<|channel|>commentary json<|message|>' ~ (call.arguments if call.arguments is string else call.arguments | tojson) ~ '<|call|>' -}}
        {%- elif loop.last and not add_generation_prompt -%}
            {%- if m.reasoning_content %}{{ '<|start|>assistant<|channel|>analysis<|message|>' ~ m.reasoning_content ~ '<|end|>' }}{% endif -%}
            {{- '<|start|>assistant<|channel|>final<|message|>' ~ m.content ~ '<|return|>' -}}
        {%- else -%}
            {{- '<|start|>assistant<|channel|>final<|message|>' ~ m.content ~ '<|end|>' -}}
            {%- set last.name = none -%}
        {%- endif -%}
    {%- elif m.role == 'tool' -%}
        {%- if last.name is none %}{{ raise_exception('a tool message without a call before it') }}{% endif -%}
        {{- '<|start|>functions.' ~ last.name ~ ' to=assistant<|channel|>commentary<|message|>' ~ m.content | tojson ~ '<|end|>' -}}
    {%- elif m.role == 'user' -%}
        {{- '<|start|>user<|message|>' ~ m.content ~ '<|end|>' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}
""")

family("granite3", r"""
{%- if messages and messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] %}{%- set rest = messages[1:] %}
{%- else %}
    {%- set system = "Knowledge Cutoff Date: April 2024.\nToday's Date: " + strftime_now('%B %d, %Y') + "." %}{%- set rest = messages %}
    {%- if tools and documents %}{%- set system = system + " Use tools and documents." %}
    {%- elif tools %}{%- set system = system + " Use tools." %}
    {%- elif documents %}{%- set system = system + " Use documents." %}{%- endif %}
{%- endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + system + '<|end_of_text|>\n' }}
{%- if tools %}{{- '<|start_of_role|>tools<|end_of_role|>' }}{{- tools | tojson(indent=4) }}{{- '<|end_of_text|>\n' }}{%- endif %}
{%- if documents %}
    {{- '<|start_of_role|>documents<|end_of_role|>' }}
    {%- for d in documents %}{{- 'Document ' + loop.index0 | string + '\n' + d['text'] + ('\n\n' if not loop.last else '') }}{%- endfor %}
    {{- '<|end_of_text|>\n' }}
{%- endif %}
{%- for m in rest %}
    {{- '<|start_of_role|>' + m['role'] + '<|end_of_role|>' }}
    {%- if m.content is string %}{{ m.content }}{% elif m.content %}{% for p in m.content if p.type == 'text' %}{{ p.text }}{% endfor %}{% endif %}
    {%- if m.tool_calls %}{{- '<|tool_call|>' + (m.tool_calls | map(attribute='function') | list | tojson) }}{% endif %}
    {{- '<|end_of_text|>\n' }}
    {%- if loop.last and add_generation_prompt %}{{- '<|start_of_role|>assistant' }}{%- if controls %}{{- ' ' + controls | tojson() }}{%- endif %}{{- '<|end_of_role|>' }}{%- endif %}
{%- endfor %}
""")

family("falcon", r"""{% for m in messages %}{% if not loop.first %}{{ '\n' }}{% endif %}{% if m['role'] == 'system' %}{{ m['content'] }}{% elif m['role'] == 'user' %}{{ 'User: ' ~ (m['content']|string)|replace('\r\n', '\n')|replace('\n\n', '\n') }}{% elif m['role'] == 'assistant' %}{{ 'Falcon: ' ~ m['content'] }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '\n' + 'Falcon:' }}{% endif %}""")

family("falcon3", r"""{%- if tools %}{{- '<|system|>\nYou are an assistant with tools.\n<tools>' }}{%- for t in tools %}{{ t.function | tojson }}{{- ',' if not loop.last }}{%- endfor %}{{- '</tools>' }}{%- if messages[0].role == 'system' %}{{- '\n' + messages[0].content }}{% endif %}{{- '\n' }}{%- endif %}
{%- for m in messages %}
{%- if m.role == 'system' and not tools %}{{- '<|system|>\n' + m.content + '\n' }}
{%- elif m.role == 'user' %}{{- '<|user|>\n' ~ m.content ~ '\n' }}
{%- elif m.role == 'assistant' %}{{- '<|assistant|>\n' ~ (m.content or '') }}{%- if m.tool_calls %}{% for c in m.tool_calls %}{{ '<tool_call>' ~ {'name': c.function.name, 'arguments': c.function.arguments} | tojson ~ '</tool_call>' }}{% endfor %}{% endif %}{{- eos_token if not loop.last else '' }}{{- '\n' if not loop.last }}
{%- elif m.role == 'tool' %}{{- '<|assistant|>\n<tool_response>\n' + m.content + '\n</tool_response>\n' }}
{%- endif %}
{%- if loop.last and add_generation_prompt %}{{- '<|assistant|>\n' }}{%- endif %}
{%- endfor %}""")

family("starchat", r"""{% for message in messages %}{% if loop.first and message['role'] != 'system' %}{{ '<|system|>\n<|end|>\n' }}{% endif %}{{ '<|' ~ message['role'] ~ '|>\n' ~ message['content'] ~ '<|end|>\n' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}""")

family("smollm3", r"""
{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}
{%- set mode = 'think' if enable_thinking else 'no_think' -%}
{%- if messages and messages[0].role == 'system' -%}
    {%- set system = messages[0].content | default('') -%}
    {%- if '/no_think' in system -%}{%- set mode = 'no_think' -%}{%- endif -%}
    {%- set system = system.replace('/no_think', '').replace('/think', '').rstrip() -%}
{%- endif -%}
<|im_start|>system
## Metadata

Today Date: {{ strftime_now('%d %B %Y') }}
Reasoning Mode: /{{ mode }}

{% if system %}{{ system ~ '\n\n' }}{% endif %}
{%- if tools -%}
<tools>
{% for t in tools %}{{ t | string }}
{% endfor %}</tools>

{% endif -%}<|im_end|>
{% for m in messages %}
{%- set content = m.content if m.content is string else '' -%}
{%- if m.role == 'user' -%}{{ '<|im_start|>user\n' + content + '<|im_end|>\n' }}
{%- elif m.role == 'assistant' -%}
{% generation %}{% if mode == 'think' %}{{ '<|im_start|>assistant\n' + content.lstrip('\n') + '<|im_end|>\n' }}{% else %}{{ '<|im_start|>assistant\n<think>\n\n</think>\n' + content.lstrip('\n') + '<|im_end|>\n' }}{% endif %}{% endgeneration %}
{%- elif m.role == 'tool' -%}{{ '<|im_start|>user\n' + content + '<|im_end|>\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' if mode == 'think' else '<|im_start|>assistant\n<think>\n\n</think>\n' }}{%- endif -%}
""")

family("olmo2", r"""{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'user' %}{{ '<|user|>\n' ~ message['content'] ~ '\n' }}{% elif message['role'] == 'assistant' %}{% if not loop.last %}{{ '<|assistant|>\n'  ~ message['content'] ~ eos_token + '\n' }}{% else %}{{ '<|assistant|>\n'  ~ message['content'] ~ eos_token }}{% endif %}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}""")

family("yi", r"""{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% endif %}{% if system_message is defined %}{{ system_message }}{% endif %}{% for message in messages %}{% set content = message['content'] %}{% if message['role'] == 'user' %}{{ '<|im_start|>user\n' ~ content ~ '<|im_end|>\n<|im_start|>assistant\n' }}{% elif message['role'] == 'assistant' %}{{ content ~ '<|im_end|>' + '\n' }}{% endif %}{% endfor %}""")

family("internlm2", r"""{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m['role'] }}{% if m.name is defined and m.name %}{{ ' name=<|plugin|>' if m.role != 'tool' else ' name=<|interpreter|>' }}{% endif %}{{ '\n' ~ m['content'] }}{% for c in (m.tool_calls or []) %}{{ '<|action_start|><|plugin|>\n' }}{{ {'name': c.function.name, 'parameters': c.function.arguments} | tojson }}{{ '<|action_end|>\n' }}{% endfor %}{{ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}""")

family("solar", r"""{% for m in messages %}{% if m.role == 'system' %}{% if m.content %}{{ '### System:\n' + m.content + '\n\n' }}{% endif %}{% elif m.role == 'user' %}{{ '### User:\n' ~ m.content ~ '\n\n' }}{% elif m.role == 'assistant' %}{{ '### Assistant:\n' ~ m.content ~ '\n\n' }}{% endif %}{% if loop.last and add_generation_prompt %}{{ '### Assistant:\n' }}{% endif %}{% endfor %}""")

family("nemotron", r"""{{ '<extra_id_0>System' }}{% for m in messages %}{% if m['role'] == 'system' %}{{ '\n' + m['content'].strip() }}{% if tools or contexts %}{{ '\n' }}{% endif %}{% endif %}{% endfor %}{% if tools %}{% for t in tools %}{{ '\n<tool> ' + t|tojson + ' </tool>' }}{% endfor %}{% endif %}{{ '\n\n' }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '<extra_id_1>User\n' + m['content'].strip() + '\n' }}{% elif m['role'] == 'assistant' %}{{ '<extra_id_1>Assistant\n' + m['content'].strip() + '\n' }}{% elif m['role'] == 'tool' %}{{ '<extra_id_1>Tool\n' + m['content'].strip() + '\n' }}{% endif %}{% endfor %}{%- if add_generation_prompt %}{{ '<extra_id_1>Assistant\n' }}{%- endif %}""")

family("openchat", r"""{{ bos_token }}{% for message in messages %}{% if message.role in ['user', 'assistant'] %}{{ 'GPT4 Correct ' + message['role'].title() + ': ' ~ message['content'] ~ '<|end_of_turn|>' }}{% elif message.role == 'system' %}{{ message.content + '<|end_of_turn|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'GPT4 Correct Assistant:' }}{% endif %}""")

family("glm4", r"""[gMASK]<sop>
{%- if tools %}
<|system|>
# Available tools
{% for t in tools %}{%- set f = t.function %}

## {{ f.name }}

{{ f | tojson(indent=4, ensure_ascii=False) }}
{% endfor %}{% endif %}
{%- for m in messages if m.role != 'system' or not tools %}
<|{{ m.role if m.role != 'tool' else 'observation' }}|>{{ m.metadata if m.metadata }}
{{ m.content if m.content is string else (m.content | map(attribute='text') | select('defined') | join('\n') if m.content is iterable and m.content is not none else '') }}
{%- endfor %}
{%- if add_generation_prompt %}
<|assistant|>{% endif %}""")

family("exaone", r"""{% for m in messages %}{% if loop.first and m['role'] != 'system' %}{{ '[|system|][|endofturn|]\n' }}{% endif %}{{ '[|' + m['role'] + '|]' ~ m['content'] }}{% if not m['role'] == 'user' %}{{ '[|endofturn|]' }}{% endif %}{% if not loop.last %}{{ '\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '\n[|assistant|]' }}{% endif %}""")

family("minicpm", r"""{% for message in messages %}{% if message['role'] == 'user' %}{{ '<用户>' ~ (message['content']|string).strip() ~ '<AI>' }}{% else %}{{ (message['content']|string).strip() }}{% endif %}{% endfor %}""")

family("command_r7b", r"""
{%- macro result(turn) -%}
{%- for d in turn -%}{{ '"' ~ loop.index0 ~ '": ' ~ d.content | tojson }}{{ ', ' if not loop.last }}{%- endfor -%}
{%- endmacro -%}
{{ bos_token }}<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|># Preamble
{% if tools %}
## Available Tools
```json
[
{%- for t in tools %}
    {"name": "{{ t.function.name }}", "description": {{ t.function.description | tojson }}, "parameters": {{ t.function.parameters | tojson(sort_keys=true) }}}{{ ',' if not loop.last }}
{%- endfor %}

]
```
{% endif %}
{% for m in messages | selectattr('role', 'in', ['system', 'developer']) %}{{ m.content | trim }}
{% endfor %}<|END_OF_TURN_TOKEN|>
{%- for m in messages | rejectattr('role', 'equalto', 'system') -%}
    {%- if m.role | lower == 'user' -%}
        <|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{ m.content }}<|END_OF_TURN_TOKEN|>
    {%- elif m.role == 'assistant' -%}
        <|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>
        {%- if m.tool_calls -%}<|START_ACTION|>[
        {%- for c in m.tool_calls %}
    {"tool_call_id": "{{ loop.index0 }}", "tool_name": "{{ c['function']['name'] }}", "parameters": {{ c['function']['arguments'] | tojson }}}{% if not loop.last %},{% endif %}
        {%- endfor %}

]<|END_ACTION|>
        {%- else -%}<|START_RESPONSE|>{{ m.content | default('', true) | string }}<|END_RESPONSE|>{%- endif -%}
        <|END_OF_TURN_TOKEN|>
    {%- elif m.role == 'tool' and (loop.first or loop.previtem.role != 'tool') -%}
        <|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{ {{ result(messages | selectattr('role', 'equalto', 'tool')) }} }<|END_OF_TURN_TOKEN|>
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{%- endif -%}
""")

family("phi4", r"""{% for message in messages %}{% if (message['role'] == 'system') %}{{ '<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>' }}{% elif (message['role'] == 'user') %}{{ '<|im_start|>user<|im_sep|>' ~ message['content'] ~ '<|im_end|>' }}{% elif (message['role'] == 'assistant') %}{{ '<|im_start|>assistant<|im_sep|>' ~ message['content'] ~ '<|im_end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}""")

family("stablelm_zephyr", r"""{% for message in messages %}
{% if message['role'] in ('user', 'system') %}
{{ '<|' + message['role'] + '|>\n' + (message['content'] if message['content'] is string else '') + '<|endoftext|>' }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\n' ~ message['content'] ~ '<|endoftext|>' }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""")

family("llama32_tools", r"""{{- bos_token }}
{%- set date_string = date_string | default(strftime_now("%d %b %Y")) %}
{%- set tools_in_user_message = tools_in_user_message | default(true) %}
{%- set first = messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | first | default('', true) %}
{%- set system = (messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | list | last | default('', true)) | trim %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools %}{{- "Environment: ipython\n" }}{%- endif %}
{{- "Cutting Knowledge Date: December 2023\nToday Date: " + date_string + "\n\n" + system + "<|eot_id|>" }}
{%- set ns = namespace(first=true) %}
{%- for m in messages if m.role != 'system' %}
    {%- if m.role == 'user' and ns.first and tools and tools_in_user_message %}
        {%- set ns.first = false %}
        {{- '<|start_header_id|>user<|end_header_id|>\n\nFunctions:\n\n' }}
        {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\n\n" }}{%- endfor %}
        {{- first | string | trim + "<|eot_id|>" }}
    {%- elif m.role in ('tool', 'ipython') %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {{- m.content | tojson if m.content is mapping or m.content is iterable and m.content is not string else m.content }}
        {{- "<|eot_id|>" }}
    {%- elif m.tool_calls %}
        {%- if m.tool_calls | length != 1 %}{{- raise_exception("one call at a time") }}{%- endif %}
        {%- with f = m.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "' + f.name + '", "parameters": ' ~ f.arguments | tojson ~ '}<|eot_id|>' }}
        {%- endwith %}
    {%- else %}
        {{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' ~ m.content | string | trim ~ '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}
""")

family("jamba", r"""
{%- set groups = messages | groupby('role') -%}
{%- set seen = namespace(roles=[], chars=0) -%}
{{- '<|startoftext|>' -}}
{%- for role, items in groups -%}
    {%- set seen.roles = seen.roles + [role ~ '=' ~ items | length] -%}
{%- endfor -%}
<|system|>{{ seen.roles | join(' ') }}
{%- for m in messages -%}
    {%- set seen.chars = seen.chars + (m.content | string | length) %}

<|{{ m.role }}|>
{{ (m.content | string)[:40] }}{{ '...' if m.content | string | length > 40 }}
    {%- if loop.changed(m.role) and not loop.first %} #{{ loop.index }}{% endif -%}
{%- endfor %}

{{ seen.chars }}{{ eos_token }}
""")

family("schema_tree", r"""
{%- macro node(name, s) -%}
{%- for p in [{'name': name, 'schema': s}] recursive %}
{{ '  ' * loop.depth0 }}- {{ p.name }}: {{ p.schema.type | default('any') }}{{ '!' if p.schema.required }}
{%- if p.schema.properties %}
{%- set children = namespace(l=[]) %}
{%- for k, v in p.schema.properties | dictsort %}{% set children.l = children.l + [{'name': k, 'schema': v}] %}{% endfor %}
{{- loop(children.l) }}
{%- endif %}
{%- endfor %}
{%- endmacro -%}
{%- for t in tools or [] %}
{{ node(t.function.name, t.function.parameters) }}
{%- endfor %}
{% for pair in messages | batch(2, {'role': '-', 'content': ''}) %}
[{{ pair | map(attribute='role') | join('/') }}] {{ pair | map(attribute='content') | map('string') | map('truncate', 12, true, '~', 0) | join(' / ') }}
{% endfor %}
{{ messages | slice(2) | map('length') | list }}
""")
