"""jinja2 set up as Hugging Face transformers documents it for chat templates (docs: "Writing a chat template")."""
import datetime
import functools
import json
import math

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2024, 7, 4, 13, 5, 9)


class Generation(jinja2.ext.Extension):
    """{% generation %}: transparent, in a scope of its own."""
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(lineno)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


@functools.lru_cache(maxsize=64)
def compiled(env, template):
    return env.from_string(template)


def render(env, template, context):
    """(text, None) or (None, error)."""
    try:
        text = compiled(env, template).render(**context)
        text.encode("utf-8")
        return text, None
    except Exception as e:  # whatever Python makes of it: the template failed
        return None, f"{type(e).__name__}: {e}"
