"""Expression and whitespace snippets for the comparison with jinja2: written ones per operator, filter, test, method and
rule, and generated ones from a fixed seed."""
import random

CONTEXT = {
    "s": "Hello, World", "e": "", "u": "Grüße 東京 🗼", "sp": "  a b\t c \n", "n": 7, "z": 0, "neg": -3, "f": 2.5, "t": True,
    "no": False, "nil": None, "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "mixed": [1, "a", None, 2.0, True, [1], {"k": 1}],
    "d": {"b": 1, "a": 2, "C": 3}, "de": {}, "nested": {"x": {"y": [10, {"z": "deep"}]}, "items": "shadow", "get": 5},
    "rows": [{"name": "x", "v": 2, "on": True}, {"name": "Y", "v": 1}, {"name": "z", "v": 2, "on": False}],
    "lines": "one\ntwo\r\nthree\n\nfive", "html": "<a href=\"x\">'&'</a>", "q": "it's", "qq": "both ' and \"", "ctl": "a\x00b\x1f\u200b\u00ad",
    "tu": "x", "big": 9007199254740993,
}

ATOMS = ["s", "e", "u", "n", "z", "neg", "f", "t", "no", "nil", "l", "ls", "le", "d", "nested", "undef", "1", "2", "-1", "0",
         "1.5", "'a'", "'Hello'", "[1, 2]", "(1, 2)", "{'a': 2}", "true", "none", "''", "rows", "mixed", "range(3)"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
UNARY = ["-", "+", "not "]
FILTERS = ["abs", "capitalize", "count", "default('D')", "d('D', true)", "dictsort", "escape", "e", "first", "float", "int", "items",
           "join", "join('-')", "last", "length", "list", "lower", "max", "min", "reverse", "round", "round(1)", "safe", "sort",
           "sort(reverse=true)", "string", "sum", "title", "tojson", "trim", "unique|list", "upper", "map('upper')|list",
           "map(attribute='name')|list", "select|list", "reject|list", "select('string')|list", "selectattr('on')|list",
           "rejectattr('on')|list", "selectattr('v', 'eq', 2)|list", "replace('l', 'L')", "indent", "batch(2)|list", "wordcount",
           "attr('name')", "reverse|list", "items|list", "list|length", "forceescape"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "mapping", "sequence", "iterable", "boolean",
         "true", "false", "odd", "even", "eq(2)", "equalto 'a'", "ne 1", "lt 2", "le 2", "gt 2", "ge 2", "in l", "in 'Hello'",
         "divisibleby 3", "divisibleby(0)", "lower", "upper", "callable", "sameas none", "sameas true", "escaped", "not defined",
         "not none", "lessthan 3", "greaterthan(3)"]

WRITTEN = r"""
1 + 2 * 3 - 4 / 2|1 + 2 ~ 3 + 4|2 ** 3 ** 2|-2 ** 2|2 ** -1|2 ** 0.5|7 // 2|-7 // 2|7 // -2|-7 % 3|7 % -3|7.5 // 2|-7.5 % 2|7.5 % -2|1 / 3|10 / 5
0.1 + 0.2|1e16|1e15|123456789012345678.0|1e-4|1e-5|1.0|100.0|1e22|1e23|5e-324|1.7976931348623157e308|-0.0|0.1|3.14159|1e100|2.0 ** 60|1E5|1_000|1_0.5|0x1F|0b101|0o17|0xff_ff|1.5e3
1 < 2 < 3|1 < 3 < 2|3 > 2 > 1 > 0|1 == 1.0|1 == true|0 == false|'a' < 'b'|'a' < 1|[1, 2] < [1, 3]|[1] < ['a']|(1,) == [1]|none == none|undef == undef|undef == none|none < 1|'é' > 'z'
1 in [1, 2]|1 in 1|'a' in 'cat'|1 in 'cat'|'b' in d|'zz' in d|[1] in [[1]]|2 in range(3)|2.0 in range(3)|'x' in undef|undef in l|undef in s|not 1 in [2]|not (1 in [1])|1 not in [1] or true
a if false else b|'x' if t|'x' if no|('x' if no) is undefined|1 if no else 2 if no else 3|[1 if t else 2, 3]|(1 if t else 2) + 1|not t and no|t or undef.x|no and undef.x|n or 1|e or 'dflt'|not e|not not s
[]|()|{}|[1,]|(1,)|{'a': 1,}|[1, [2, [3, (4,)]]]|{'a': {'b': [1, 2.0, 'x', none, true]}}|{1: 2, 1.5: 3, none: 4, true: 5}|{'a': 1, 'a': 2}|{[1]: 2}|{(1, 2): 3}|(1, 2) + (3,)|[1] + [2]|[1] * 3|3 * 'ab'|'ab' * -1|[1] + (2,)|'a' + 1|1 + 'a'|'a' ~ 1 ~ none ~ 2.5|none + 1|'a' 'b' "c"
s[0]|s[-1]|s[100]|s[1:4]|s[:3]|s[3:]|s[::-1]|s[::2]|s[10:2:-3]|s[-3:]|s[:-3]|u[6:8]|u[::-1]|u[-1]|l[0]|l[5]|l[1:]|l[::-1]|l[:-1]|l[-2:]|l[0:0]|(1,2,3)[::2]|range(10)[2:5]|range(10)[::-3]|range(10)[-1]|d['a']|d['zz']|d.a|d.zz|d.zz.y|d[1]|s['x']|s.x|n.x|none.x|l['0']|l.0|l[true]|s[none:2]|s['a':]|s[::0]|d[1:2]|l[1, 2]|u|u|length|nested.x.y[1].z|nested['x']['y'].1['z']|nested.items|nested['items']|nested.get|s.__class__|s['__class__']|undef.__x__|undef['a']|undef[0]|rows[0].name ~ rows[-1]['name']
'%s and %d' % ('a', 3)|'%s' % l|'%s' % none|'%5.2f|%-6s|%06d|%+d|%x|%%' % (2.345, 'ab', 42, 5, 255)|'%(a)s' % {'a': 1}|'%s %s' % 'a'|'%d' % 'a'|'%c' % 65|'%r' % 'q'|'{} {}'.format(1, 'x')|'{0}{1}{0}'.format('a', 'b')|'{x}'.format(x=3)|'{{}}'.format()|'{}'.format()|'%s'|format('x')|'%(v)s'|format(v=2)|'%e' % 12345.678|'%g' % 0.0001|'%5s|' % u|'%.2s' % u|'%i' % 3.9|'%s' % (1, 2)
s.upper()|s.lower()|s.title()|s.capitalize()|s.swapcase()|'ß'.upper()|'ΑΣ'.lower()|'ΑΣΑ'.lower()|'İ'.lower()|'ǆ'.title()|'ŉa'.upper()|'ﬁ'.upper()|"they're bill's".title()|'x1y'.title()|u.upper()|u.lower()
sp.strip()|sp.lstrip()|sp.rstrip()|'xxaxx'.strip('x')|'abcba'.strip('ab')|'abcba'.lstrip('ab')|'abcba'.rstrip('ab')|'\u00a0x\u2003'.strip()|'a'.strip(1)|'a'.strip(none)|''.strip()|'éaé'.strip('é')
sp.split()|s.split(',')|s.split('l')|s.split('l', 1)|s.split('')|s.split(none, 1)|' a  b c '.split(none, 1)|' a  b c '.rsplit(none, 1)|s.rsplit('l', 1)|s.split(sep='o')|s.split('o', maxsplit=1)|''.split()|''.split(',')|'a,b,,c'.split(',')|'aXXXb'.rsplit('XX')|lines.splitlines()|lines.splitlines(true)|lines.splitlines(keepends=true)|'a\x0bb\x1cc\u2028d'.splitlines()|''.splitlines()|'   '.split()
s.startswith('He')|s.startswith('')|s.startswith(('x', 'H'))|s.startswith(1)|s.startswith('l', 2)|s.startswith('l', 2, 3)|s.endswith('ld')|s.endswith(('a', 'ld'))|s.endswith('o', 0, 5)|''.startswith('a')|''.startswith('')|s.startswith('', 50)|u.startswith('東', 6)
s.replace('l', 'L')|s.replace('l', 'L', 1)|s.replace('', '-')|u.replace('', '.')|s.replace('zz', 'y')|s.replace('l')|'aaa'.replace('aa', 'b')|''.replace('', 'x')|'abc'.replace('', '-', 2)|s.replace('o', '', 0)
s.find('o')|s.find('o', 5)|s.find('zz')|s.rfind('o')|s.index('W')|s.index('zz')|u.find('京')|s.count('l')|s.count('')|s.count('l', 3)|'aaaa'.count('aa')|s.find('', 50)|s.rfind('')|s.rindex('l')|s.find('l', -3)
', '.join(ls)|''.join(l)|'-'.join('abc')|', '.join(d)|','.join([])|'x'.join(undef)|s.isalpha()|'abc'.isalpha()|'12'.isdigit()|'²'.isdigit()|'½'.isnumeric()|'a1'.isalnum()|' '.isspace()|''.isspace()|'A B'.isupper()|'ab1'.islower()|'Ab Cd'.istitle()|'ABc'.istitle()|'12'.isdecimal()|'é'.isascii()|''.isascii()
'7'.zfill(3)|'-7'.zfill(4)|'a'.ljust(3, '.')|'a'.rjust(3)|'ab'.center(5, '*')|'a'.center(4)|'prefix-x'.removeprefix('prefix-')|'x.py'.removesuffix('.py')|'a=b=c'.partition('=')|'a=b=c'.rpartition('=')|'abc'.partition('=')|'abc'.rpartition('=')|'a'.ljust(5, 'xx')|s.nosuch()
d.items()|d.keys()|d.values()|d.get('a')|d.get('zz')|d.get('zz', 9)|d.items()|list|d.copy()|d.pop('a')|d.update({'x': 1})|l.append(4)|l.pop()|l.sort()|l.index(1)|l.count(3)|l.index(99)|d.clear()|l.append is defined|d.items() is mapping|d.keys() is sequence|d.items()|length|'a' in d.keys()|2 in d.values()|d.get([1])|l.copy()
range(5)|range(5)|list|range(1, 4)|list|range(5, 0, -2)|list|range(0)|list|range(3, 1)|list|range(1, 2, 0)|range('a')|range(2.5)|range(100001)|range(undef)|range(3) == range(3)|range(3) is sequence|dict(a=1)|dict({'x': 1}, y=2)|dict([(1, 2), ('a', 'b')])|dict([1])|namespace(a=1)|namespace(a=1).a|namespace(a=1).b|namespace()|lipsum()|cycler('a')|joiner()|range() |dict(1)|namespace({'q': 1}).q
undef|undef.x|undef()|undef + 1|-undef|undef|length|undef|upper|undef is defined|undef|default('x')|none|default('x')|none|default('x', true)|''|default('x', boolean=true)|undef|d|undef|list|undef|join|undef|int|undef|float|undef|tojson|undef|string|[undef]|undef ~ 'x'|undef < 1|not undef|undef|first|undef|last|undef|sort|undef|sum|undef|items|list|undef|dictsort|undef|abs|undef|round|undef|trim|undef == 1|undef != 1|undef|map('upper')|list
l|sort|l|sort(reverse=true)|ls|sort|ls|sort(case_sensitive=true)|rows|sort(attribute='v')|map(attribute='name')|list|rows|sort(attribute='v,name')|map(attribute='name')|list|rows|sort(attribute='v', reverse=true)|map(attribute='name')|join|mixed|sort|'cab'|sort|d|sort|rows|sort|ls|unique|list|['a', 'A', 'b']|unique|list|['a', 'A']|unique(true)|list|rows|unique(attribute='v')|map(attribute='name')|list|[[1], [1]]|unique|list|[1, 1.0, true]|unique|list
l|min|l|max|le|min|le|max is undefined|ls|min|ls|max|ls|max(case_sensitive=true)|rows|max(attribute='v')|rows|min(attribute='v')|mixed|max|l|sum|le|sum|rows|sum(attribute='v')|l|sum(start=10)|ls|sum|[[1], [2]]|sum(start=[])|[0.1]*3|sum|s|min
rows|map(attribute='name')|list|rows|map(attribute='nope')|list|rows|map(attribute='nope', default='D')|list|ls|map('upper')|join|ls|map('replace', 'a', 'X')|list|ls|map('default', 'x')|list|ls|map|ls|map('nosuch')|list|ls|map('upper')|ls|map('upper')|length|ls|map('upper')|first|[[1, 2], [3]]|map('first')|list|[[1, 2], [3]]|map('join', '-')|list|[[3, 4]]|map(attribute=0)|list|[{'a': {'b': 1}}]|map(attribute='a.b')|list|[[1, [2]]]|map(attribute='1.0')|list|s|map('upper')|join
l|select('odd')|list|l|reject('odd')|list|mixed|select|list|mixed|reject|list|mixed|select('number')|list|mixed|reject('none')|list|l|select('gt', 1)|list|l|select('in', [1, 2])|list|l|select('divisibleby', 3)|list|l|select('nosuch')|list|l|select('==', 2)|list|l|select('>=', 2)|list|rows|selectattr('on', 'defined')|map(attribute='name')|list|rows|rejectattr('v', 'equalto', 2)|list|rows|selectattr('nope')|list|rows|selectattr|le|selectattr|list|rows|selectattr('name', 'in', ['x', 'z'])|map(attribute='v')|list|l|select('odd')|length|l|select('odd') is iterable|(l|select('odd')) and 1|rows|selectattr('v', '==', 2)|list|length
d|dictsort|d|dictsort(true)|d|dictsort(by='value')|d|dictsort(reverse=true)|d|dictsort(false, 'value', true)|d|dictsort(by='x')|l|dictsort|d|items|list|l|items|list|d|list|d|length|d|first|d|last|d|join(',')|d|tojson|d|string|d|reverse|list|d|max|{'a': 1, 1: 2}|dictsort
s|length|u|length|l|count|n|length|none|length|s|first|s|last|u|last|l|first|le|first|le|last is undefined|s|list|u|list|n|list|s|reverse|l|reverse|l|reverse|list|u|reverse|n|reverse|(1, 2)|reverse|list|range(3)|reverse|list|l|batch(2)|list|l|batch(2, 'x')|list|l|batch(0)|list|l|batch|range(3)|last|d.items()|first|ls|join|ls|join(', ')|l|join(1)|rows|join(',', attribute='name')|mixed|join(' ')|n|join|s|join('.')|ls|join(d='+')
s|upper|s|lower|s|title|s|capitalize|n|upper|'foo-bar (baz) [q] {w} <e>x'|title|"it's a foo_bar"|title|'ÀB c'|title|sp|trim|s|trim('Hd')|'xaax'|trim('x')|n|trim|none|trim|s|replace('l', 'L')|s|replace('l', 'L', 1)|n|replace('7', '8')|s|replace('l', 1)|s|replace('l')|u|capitalize|'ΑΣ ΑΣ'|title|none|string|l|string|t|string|1.0|string
'42'|int|'42.7'|int|'x'|int|'x'|int(5)|42.9|int|-42.9|int|t|int|none|int|none|int(3)|'0x1f'|int(0, 16)|'0x1f'|int|'0b11'|int(base=0)|' 12 '|int|'1_000'|int|''|int|l|int|'1e3'|int|'inf'|int|'٣'|length|'3.5'|float|'x'|float|'x'|float(1.5)|3|float|'1e5'|float|'inf'|float|'-Infinity'|float|none|float|'nan'|float|'.5'|float|'5.'|float|'1_0.5'|float|'1__0'|float|l|float|'+3'|int|'--3'|int|'7'|int(base=8)|'8'|int(9, 8)
neg|abs|2.5|abs|(-2.5)|abs|s|abs|true|abs|2.5|round|3.5|round|-2.5|round|2.675|round(2)|42.55|round(1)|42.55|round(1, 'floor')|42.51|round(1, 'ceil')|42|round|42|round(1)|42|round(0, 'floor')|2.5|round(0, 'x')|s|round|1234.5|round(-2)|1e300|round(2)|0.5|round|1.005|round(2)|5|round(method='ceil')|t|round|1.25|round(1)|2.5|round|int
html|escape|html|e|html|e|e|html|e|string|e|html|forceescape|html|e|forceescape|html|safe|(html|safe) + '<'|'<' + (html|safe)|(html|safe) ~ '<'|(html|e) is escaped|html is escaped|n|e|none|e|[html|safe]|html|e|upper|(html|safe)|length|(html|safe) == html
lines|indent|lines|indent(2)|lines|indent(2, true)|lines|indent(2, true, true)|lines|indent('> ')|lines|indent(width=3, first=true)|lines|indent(blank=true)|e|indent|n|indent|'x'|indent(0)|'a\n'|indent|'a\n\nb\n'|indent(1, false, true)|s|wordcount|u|wordcount|'a_b c-d'|wordcount|rows[0]|attr('name')|s|attr('upper')|s|attr('nope')|l|random|s|nosuch|s is nosuch|s|filesizeformat is defined|t and s|nosuch
u|tojson|q|tojson|qq|tojson|ctl|tojson|html|tojson|mixed|tojson|nested|tojson(indent=2)|nested|tojson(indent='\t')|le|tojson(indent=2)|de|tojson(indent=2)|[[], {}]|tojson(indent=1)|u|tojson(true)|u|tojson(ensure_ascii=true)|d|tojson(sort_keys=true)|l|tojson(separators=(',', ':'))|d|tojson(indent=0)|{1: 2, none: 3, true: 4, 1.5: 5}|tojson|{(1,): 2}|tojson|(1, 2)|tojson|range(2)|tojson|1e16|tojson|'inf'|float|tojson|'\x7f\x80\u2028'|tojson|d.items()|tojson|namespace()|tojson|undef|tojson|d|tojson(nope=1)|d|tojson(separators=(',',))|[1, [2, {'a': (3,)}]]|tojson(indent=3, separators=(';', '='))|s|tojson|tojson|(html|safe)|tojson|big|tojson|'\u007f\U0001f600'|tojson(true)|{'b': 1, 1: 2}|tojson(sort_keys=true)|{2: 1, 1: 2}|tojson(sort_keys=true)
q|qq|[q]|[qq]|[u]|[ctl]|['\n\t\r\\']|['\xad\u200b\U000e0001']|{'k': u}|['é']|[s, 1.0, -0.0, none, t]|'a\tb'|'\x41\u0042\U00000043\103'|'\q\d'|'\é'|'\u00e9'|"\"'"|'\
x'|'\0'|'\N{BULLET}'|'\x4'|'\ud800'|'\a\b\f\v'|['\x7f\x80\xa0']
s is string|n is number|t is number|t is integer|n is integer|f is float|n is float|nil is none|undef is none|d is mapping|l is mapping|l is sequence|s is sequence|n is sequence|undef is sequence|d is sequence|s is iterable|n is iterable|undef is iterable|t is boolean|n is boolean|t is true|n is true|no is false|z is false|n is odd|n is even|s is odd|f is even|n is divisibleby 7|n is divisibleby(2)|n is divisibleby(0)|n is eq 7|n is equalto(7.0)|n is ne 7|n is lt 8|n is gt s|'a' is in 'abc'|n is in [7]|n is not in [7]|s is lower|'abc' is lower|'ABC' is upper|n is lower|range is callable|s.upper is callable|s is callable|undef is callable|n is sameas 7|nil is sameas none|l is sameas l|s is not string|not s is string|n is defined and n is odd|s is not defined or t|n is not odd == false|'upper' is filter|'nosuch' is filter|'odd' is test|n is odd is true|1 is odd + 1|-1 is odd|2 + 1 is odd|s.x is defined|s.x.y is defined|nested.x.q is defined|nested.q.q is defined|n is lt 3 + 2|n is in(l)|u is upper
(1|string) + 'a'|1|string|length|-1|abs|(-1)|abs|1 + -1|abs|s|upper|lower|s.upper()|lower|s|replace('l', 'L')|replace('L', 'M')|[3, 1]|sort|first|(s|list)[0]|s|list[0]|d.a|string ~ 'x'|(n, s)|length|n|string(1)|s|upper()|s|join(sep='x')|l|first(1)|s|trim(chars=' ')|l|sort(true, false)|l|sort(bogus=1)|s.strip(chars='x')|s.split(maxsplit=1)|dict(a=1, a=2)|dict(**{'x': 1})|dict(*[[(1, 2)]])|range(*[1, 3])|list|dict(**1)|range(*1)|s.replace(*['l', 'L'])
1,2|(1)|()|1 if|[1|{1}|{'a' 1}|1 +|+|)|(|]|1 2|a b|a.|a.'x'|a[|a[]|a[1|f(|f(a=)|f(a=1, 2)|f(*a, *b)|f(**a, *b)|f(**a, b=1)|f(*a, b=1)|x|y|||a|(b)|a is|a is 1|a is not|not|and|in|a = 1|a == |a === b|a <> b|1..2|1.|.5|"abc|'abc|$|a ? b : c|a && b|a; b|`a`|a!b|@a|#a|0777|00|08|1a|1_|1__0|0x|é|éa|ünïcödé|{{ a }}|a.b.|.a|a..b|a|1|a|'x'|'a' 'b'|true.x|none()|1()|'a'()|l()|[](0)|9223372036854775807|9223372036854775807 + 0|'a' == 'a' == 'a'|1 is in 2
"""

STATEMENTS = [
    # recursive loops, groups, parts
    "{% for x in [[1, [2, [3]]], [4]] recursive %}{% if x is sequence %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{{ loop.depth0 }}{% endif %}{% endfor %}",
    "{% for x in [{'n': 'a', 'c': [{'n': 'b'}, {'n': 'c', 'c': [{'n': 'd'}]}]}] recursive %}{{ '  ' * loop.depth0 }}{{ x.n }}{{ loop.index }}/{{ loop.length }}\n{% if x.c %}{{ loop(x.c) }}{% endif %}{% endfor %}",
    "{% for x in [1, [2], 3] recursive %}{% set y = x %}{{ loop(x)|upper if x is iterable else y }}{% else %}-{% endfor %}{{ y }}",
    "{% for x in [[], [1]] if x != 1 recursive %}<{{ loop(x) }}>{% else %}none{% endfor %}", "{% for x in l %}{{ loop([1]) }}{% endfor %}", "{% for x in l recursive %}{{ loop() }}{% endfor %}",
    "{% for x in l recursive %}{{ loop(1) }}{% endfor %}", "{% for x in [[1]] recursive %}{% for y in x %}{{ loop.depth }}{% endfor %}{% endfor %}", "{% for x in [[1]] recursive %}{% set outer = loop %}{% for y in x %}{{ outer([])|length }}{% endfor %}{% endfor %}",
    "{% for g in rows|groupby('v') %}{{ g.grouper }}:{% for r in g.list %}{{ r.name }}{% endfor %};{% endfor %}", "{% for k, items in rows|groupby('on', default='?') %}{{ k }}={{ items|length }} {% endfor %}", "{% for k, items in ['b', 'B', 'a']|groupby(0) %}{{ k }}{{ items }}{% endfor %}",
    "{% for k, items in ['b', 'B', 'a']|groupby(0, case_sensitive=true) %}{{ k }}{{ items }}{% endfor %}", "{{ rows|groupby('name') }}", "{{ (rows|groupby('name'))[0] }}{{ (rows|groupby('name'))[0].grouper }}{{ (rows|groupby('name'))[0]['list']|length }}", "{{ rows|groupby('nope') }}", "{{ rows|groupby }}", "{{ mixed|groupby(0) }}", "{{ le|groupby('x') }}",
    "{{ range(7)|slice(3)|list }}", "{{ range(7)|slice(3, 'x')|list }}", "{{ l|slice(5, 0)|list }}", "{{ l|slice(0)|list }}", "{{ l|slice('a')|list }}", "{{ le|slice(2)|list }}", "{{ l|slice(-2)|list }}",
    "{{ 'ab'|center }}|", "{{ 'ab'|center(5) }}|{{ 12|center(6) }}|{{ 'ab'|center(1) }}|{{ 'ab'|center('x') }}", "{{ 'foo bar baz qux'|truncate(9) }}|{{ 'foo bar baz qux'|truncate(9, true) }}|{{ 'foo bar baz qux'|truncate(11) }}|{{ 'foo bar baz qux'|truncate(11, false, '', 0) }}|{{ u|truncate(8, leeway=0) }}|{{ s|truncate }}",
    "{{ s|truncate(2) }}", "{{ n|truncate(3) }}", "{{ s|truncate(9, end=1) }}", "{{ s|truncate('x') }}", "{{ s|truncate(5, leeway=-1) }}", "{{ 'abcdefghij'|truncate(3, leeway=0) }}",
    # loops
    "{% for x in l %}{{ x }},{% endfor %}", "{% for x in le %}{{ x }}{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
    "{% for c in u %}{{ c }}.{% endfor %}", "{% for x in n %}{% endfor %}", "{% for x in undef %}a{% else %}b{% endfor %}",
    "{% for x in none %}{% endfor %}", "{% for a, b in [(1, 2), [3, 4]] %}{{ a + b }} {% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in ['xy'] %}{{ a }}{{ b }}{% endfor %}", "{% for a, in [(1,)] %}{{ a }}{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}no{% endfor %}",
    "{% for x in l if x > 9 %}{{ x }}{% else %}no{% endfor %}", "{% for x in l if undef.x %}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}",
    "{% for x in l %}{{ loop.previtem }}|{{ loop.nextitem }}|{{ loop.previtem is defined }} {% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in l %}{{ loop.cycle() }}{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}", "{% for x in l %}{{ loop }}{% endfor %}",
    "{% for x in l %}{{ loop.nosuch }}{% endfor %}", "{% for x in l %}{{ loop['index'] }}{{ loop|length }}{% endfor %}",
    "{% for x in l %}{% for y in ls %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
    "{% for x in l %}{% set outer = loop %}{% for y in ls %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in l %}{{ x }}{% if x == 1 %}{% break %}{% endif %}{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% break %}{% else %}else{% endfor %}", "{% for x in l %}{% continue %}{% else %}else{% endfor %}",
    "{% for x in l %}{% for y in l %}{% if y == 1 %}{% break %}{% endif %}{{ y }}{% endfor %}{{ x }}{% endfor %}",
    "{% break %}", "{% if t %}{% continue %}{% endif %}", "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for x in l %}{% set y %}a{% break %}{% endset %}{% endfor %}{{ y }}", "{% for x in l %}{% filter upper %}a{% if x == 1 %}{% break %}{% endif %}b{% endfilter %}{% endfor %}",
    "{% for x in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "{% for x in range(3) %}{{ x }}{% endfor %}",
    "{% for x in l|map('string') %}{{ loop.length }}{{ x }}{{ loop.last }}{% endfor %}", "{% set g = l|map('string') %}{{ g|list }}{{ g|list }}",
    "{% set g = l|select %}{{ g|first }}{{ g|list }}", "{% for loop in l %}{% endfor %}", "{% for x in l %}{% set loop = 1 %}{% endfor %}", "{% set loop = 1 %}{{ loop }}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "{% for x in (1, 2) if x %}{{ x }}{% endfor %}", "{% for x in l recursive %}{{ x }}{% endfor %}", "{% for x in [1 if t else 2] %}{{ x }}{% endfor %}",
    "{% for x in l if t else [] %}{% endfor %}", "{% for x in (l if t else []) %}{{ x }}{% endfor %}", "{% for true in l %}{% endfor %}", "{% for x.y in l %}{% endfor %}",
    # scopes
    "{% set x = 1 %}{% for i in l %}{{ x }}{% set x = x + 1 %}{{ x }} {% endfor %}{{ x }}", "{% for i in l %}{% if i == 3 %}{% set x = 5 %}{% endif %}{{ x }}.{% endfor %}",
    "{% if t %}{% set x = 1 %}{% endif %}{{ x }}", "{% set x = 1 %}{% if no %}{% set x = 2 %}{% else %}{% set x = 3 %}{% endif %}{{ x }}", "{% for n in l %}{{ n }}{% endfor %}{{ n }}",
    "{% set n = n + 1 %}{{ n }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{% set (a, b) = (1, 2) %}{{ a ~ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set a, = [1] %}{{ a }}",
    "{% set ns = namespace(x=0) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}{{ ns }}",
    "{% set d.x = 1 %}", "{% set undef.x = 1 %}", "{% set ns = namespace(x=1) %}{% set m = ns %}{% set m.x = 2 %}{{ ns.x }}{{ ns['x'] }}", "{% set ns = namespace(d) %}{{ ns.a }}",
    "{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x|length }}", "{% set x | upper | replace('A', 'Z') %}a{{ n }}b{% endset %}{{ x }}", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}",
    "{% set ns = namespace() %}{% set ns.x %}block{% endset %}{{ ns.x }}", "{% set true = 1 %}", "{% set x.y.z = 1 %}", "{% set x = %}", "{% set 1 = 2 %}", "{% set x 1 %}",
    "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x }}", "{% with a=1, b=2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% set a = 5 %}{% with a=1, b=a %}{{ b }}{% endwith %}", "{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}",
    # macros
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=1, a=2) }} {{ m() }}", "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}", "{% macro m() %}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}{% endmacro %}{{ m(x=1) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(4) }}",
    "{% macro m(a, a) %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ m() }}", "{% macro m() %}{{ i }}{% endmacro %}{% for i in l %}{{ m() }}{% endfor %}",
    "{% macro m() %}{% set n = 1 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}", "{% macro f(k) %}{{ k }}{{ f(k - 1) if k > 0 }}{% endmacro %}{{ f(5) }}", "{% macro m() %}x{% endmacro %}{{ m }}{{ m is callable }}{{ m()|upper }}{{ m() is string }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body{{ n }}{% endcall %}", "{% macro m() %}{{ caller('a') }}{% endmacro %}{% call(x) m() %}<{{ x }}>{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}{% endcall %}", "{% call s.upper() %}{% endcall %}", "{% call m %}{% endcall %}", "{% macro m(caller) %}{{ caller }}{% endmacro %}{{ m(1) }}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{{ m() }}{% macro m() %}{% endmacro %}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ ls|map('upper')|map('lower')|join }}{{ m(*[1]) }}{{ m(**{'x': 2}) }}",
    "{% macro m(x, y=x ~ '!', z=y ~ '?') %}{{ x }}{{ y }}{{ z }}{% endmacro %}{{ m('a') }}{{ m('a', z='b') }}", "{% set f = s.upper %}{{ f() }}", "{% macro m() %}{% for x in varargs %}{{ loop.index }}{{ x }}{% endfor %}{% endmacro %}{{ m('a', 'b') }}",
    # conditions, filters, others
    "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}", "{% if no %}a{% elif no %}b{% elif t %}c{% endif %}", "{% if e %}{% else %}empty{% endif %}", "{% if undef %}{% endif %}x", "{% if undef.x %}{% endif %}", "{% if 1, 2 %}t{% endif %}",
    "{% if %}{% endif %}", "{% if t %}", "{% if t %}{% endfor %}", "{% endif %}", "{% else %}", "{% if t %}{% else %}{% else %}{% endif %}", "{% for x in l %}", "{% nosuch %}", "{% %}", "{% 1 %}", "{{ }}", "{{ 1", "{% if t", "{# open", "{% raw %}", "{% if t: %}x{% endif %}",
    "{% filter upper %}a{{ n }}b{% endfilter %}", "{% filter upper | lower | title %}abc def{% endfilter %}", "{% filter nosuch %}{% endfilter %}", "{% filter replace('a', 'b') %}aaa{% endfilter %}", "{% if no %}{{ n|nosuch }}{% endif %}ok", "{% if t %}{{ n|nosuch }}{% endif %}",
    "{% if no %}{{ n is nosuch }}{% endif %}ok", "{% if no %}{% for x in l %}{{ x|nosuch }}{% endfor %}{% endif %}", "{{ raise_exception('boom') }}", "{% if no %}{{ raise_exception('boom') }}{% endif %}fine", "{{ raise_exception() }}", "{% print n %}", "{% print n, s %}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}",
    "{% generation %}a{{ n }}{% set q = 1 %}{% endgeneration %}{{ q }}", "{{ strftime_now('%Y-%m-%d') }}", "{{ strftime_now('') }}", "{{ strftime_now() }}", "{% set l2 = l + [4] %}{{ l2 }}{{ l }}", "{% do l.append(1) %}", "{{ self }}", "{{ loop }}", "{{ caller }}",
    "a{% set x = 1 -%}\n b", "{{ '{{' }}{{ '}}' }}{{ '{%' }}", "{{ {'a': {'b': 1}}.a.b }}", "{{ {'a': {'b': 1}} }}", "{{ {'a':1}}}", "{{'a'}}b{{-'c'-}} d", "{{+1}}", "{{-1}}", "{{ -1 }}", "{{ 1 -}}  x", "{{ 1 +}}  x",
]

WHITESPACE = ["", " ", "\n", "  ", "\n  ", "  \n", "\n\n", "\t", "x", " x ", "x\n", "\nx", "\r\n", "\r", " \u00a0", "\v"]
TAGS = ["{% if t %}", "{% endif %}", "{{ n }}", "{# c #}", "{%- if t %}", "{% endif -%}", "{{- n }}", "{{ n -}}", "{#- c -#}", "{%+ if t %}",
        "{% if t +%}", "{#+ c +#}", "{%- if t -%}", "{%- endif -%}", "{% raw %} {{ x }} {% endraw %}", "{%- raw -%} {{ x }} {%- endraw -%}",
        "{% raw %}\n{% endraw %}\n", "{%+ raw %} {%+ endraw +%}", "{% set a = 1 %}", "{{+ n }}", "{#c#}", "{%set b=2%}", "{#\n c\n#}", "{% set\nc = 3\n%}"]


def expressions():
    """The snippets of WRITTEN, one per "|" that no filter follows."""
    filters = {f.split("(")[0].split("|")[0] for f in FILTERS} | {"format", "select", "map", "unique", "reject", "default", "random",
                                                               "nosuch", "filesizeformat", "selectattr", "rejectattr", "attr", "batch"}
    out = []
    for line in WRITTEN.strip("\n").split("\n"):
        for i, part in enumerate(line.split("|")):
            head = part.replace(")", "(").replace("[", "(").replace(" ", "(").split("(")[0]
            if i and head in filters:
                out[-1] += "|" + part
            else:
                out.append(part)
    return out


def generated(seed, n):
    r = random.Random(seed)

    def expr(depth):
        k = r.randrange(10) if depth else 0
        if k < 3:
            return r.choice(ATOMS)
        if k < 6:
            return f"{expr(depth - 1)} {r.choice(BINARY)} {expr(depth - 1)}"
        if k == 6:
            return f"({r.choice(UNARY)}{expr(depth - 1)})"
        if k == 7:
            return f"({expr(depth - 1)})|{r.choice(FILTERS)}"
        if k == 8:
            return f"({expr(depth - 1)}) is {r.choice(TESTS)}"
        return f"({expr(depth - 1)} if {expr(depth - 1)} else {expr(depth - 1)})"

    return [expr(3) for _ in range(n)]


def whitespace(seed, n):
    """Text and tags in random order; ifs are closed at the end."""
    r = random.Random(seed)
    out = []
    for _ in range(n):
        s, opened = "", 0
        for _ in range(r.randrange(1, 8)):
            tag = r.choice(TAGS)
            if "endif" in tag:
                if not opened:
                    continue
                opened -= 1
            elif " if t" in tag:
                opened += 1
            s += r.choice(WHITESPACE) + r.choice(WHITESPACE) + tag
        out.append(s + r.choice(WHITESPACE) + "{% endif %}" * opened + r.choice(WHITESPACE))
    return out


def products():
    """Every atom with every filter, test and unary operator, every pair of atoms with every binary operator."""
    out = [f"{a}|{f}" for a in ATOMS for f in FILTERS] + [f"{a} is {t}" for a in ATOMS for t in TESTS]
    out += [f"{u}{a}" for u in UNARY for a in ATOMS]
    out += [f"{a} {b} {c}" for a in ATOMS for b in BINARY for c in ATOMS]
    return out
