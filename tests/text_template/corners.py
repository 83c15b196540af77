"""More expression snippets: the corners of single functions, one per line, and inputs that only the fuzz target takes."""

CORNERS = r"""
'%5.2f|%-6s|%06d|%+d|%x|%%' % (2.345, 'ab', 42, 5, 255)
'%-5d|%5d|% d|%05.1f|%-5s|%X|%o|%E|%G' % (1, 2, 3, 4.25, 'x', 255, 8, 1.5, 1e-9)
'%x' % 1.5
'%#x' % 255
'%.3d' % 5
'%c%c' % ('é', 98)
'%c' % 'ab'
'%c' % -1
'%c' % 55296
'%z' % 1
'%999999d' % 1
'%.101f' % 1.5
'%' % 1
'%5' % 1
'%(a)s%(b)d' % {'a': 'x', 'b': 2}
'%(a)s' % 1
'%(a)s' % {}
'%(a' % {'a': 1}
'100%%' % ()
'%s' % ()
'%d' % none
'%s' % d
'%d' % 1e30
'%d' % -7.9
'%f' % ('inf'|float)
'%r' % (q,)
'}'.format()
'{'.format()
'{a.b}'.format(a=1)
'{!r}'.format(1)
'{:>3}'.format(1)
'{9}'.format(1)
'{x}'.format(y=1)
'a{}b{}c'.format(l, none)
'0'|int(base=0)
'007'|int(base=0)
'000'|int(7, 0)
'0b12'|int(5, 0)
'1_'|int(3)
'_1'|int(3)
'z'|int(base=36)
'99999999999999999999'|int
'-9223372036854775808'|int
'x'|int(base=1)
1e300|int
'1e300'|int
'inf'|float|int
'nan'|float|int
'-nan'|float
'1e-5'|float
'1e+5'|float
'1e'|float(7)
'e5'|float(7)
'1.2.3'|float(7)
'_1'|float(7)
'1e5e5'|float(7)
1.5 == 1.5
1.5 < 'inf'|float
('nan'|float) == ('nan'|float)
('nan'|float) < 1
1 < ('nan'|float)
1 < 1e30
-1 > -1e30
1e30 > 1
3 == 3.5
big == 9007199254740992.0
big < 9007199254740992.0
{'a': 1, 'b': [2]} == {'b': [2], 'a': 1}
{'a': 1} == {'a': 2}
{'a': 1} == {'b': 1}
{'a': 1} == {}
s.upper == s.upper
range == range
range(0) == range(3, 1)
range(1) == range(0, 1, 5)
range(0, 4, 2) == range(0, 3, 2)
1.5 in range(3)
1 in range(0)
5 in range(9, 0, -2)
true in range(2)
'a' in range(3)
none in n
1 in none
0 ** -1
0.0 ** -1
(-8) ** 0.5
10.0 ** 400
2 ** 64
(-2) ** 63
5 // -1
5 % -1
6.0 % 3
-6.0 % 3
6.0 % -3
0.0 // 5
1.5 * 2
1.5 - 3
7.0 / 2
1.0 / 0
1.0 % 0
1.0 // 0.0
1 % 0
[] * 5
-s
+t
-f
-l
- -9223372036854775807
d[[1]]
d[{'a': 1}]
range(5)[-2]
range(5)[9]
n[0]
none[0]
namespace(a=1)['a']
namespace(a=1)['b']
l['index']
d['items']()|list
s[-100:2]
s[100:]
s[:-100:-1]
s[100::-1]
s[::99999999999]
s[::-99999999999]
undef[1:2]
n[1:2]
l[::'a']
l[1.5]
(1, 2)[::-1]
u[1:9:3]
rows|map(attribute='nope.deep')|list
rows|map(attribute=5)|list
[[1], []]|map(attribute=0, default='D')|list
rows|map(attribute='name', nope=1)|list
d|dictsort(by='nope')
le|map('upper')|list
e|select|list
l|map('string')|first
l|map('string')|last
l|map('string')|reverse|list
l|map('string')|reverse
n|items|first
n|items|list
l|sum(start='x')
l|batch('x')|list
l|batch(2.0)|list
rows[0]|attr(1)
l|map(1)|list
l|select(1)|list
l|selectattr('a')|list
l|reject('nosuch')|list
['ab', 'AB', 'b']|sort|join
[(1, 'b'), (1, 'a'), (0, 'c')]|sort
[[2, 1], [1, 2]]|max
[1, 'a']|min
[none, 1]|sort
rows|sort(attribute='nope')
rows|unique(attribute='nope')|list|length
{'b': {'x': 1}, 'a': {'x': 2}}|dictsort(by='value')
s|trim(5)
s|replace('a', 'b', 'c')
1e300|round
('inf'|float)|round
('nan'|float)|round(2)
1.5|round('x')
1.5|round(400)
15|round(-1)
s|round(1, 'ceil')
none|round
1e15|round(3)
d|tojson(indent='--')
d|tojson(indent=[1])
d|tojson(indent=true)
d|tojson(indent=-1)
d|tojson(separators='ab')
d|tojson(separators=(1, 2))
'\b\f\x01\x1f'|tojson
('nan'|float)|tojson
[('inf'|float), -('inf'|float)]|tojson
s.upper|tojson
{'z': 1, 'm': 2, 'a': 3, 'q': 4, 'b': 5}|tojson(sort_keys=true)
lines|indent([1])
lines|indent(-1)
'%s'|format(1, x=2)
'%s %s'|format(1)
strftime_now('%Y' * 200)
strftime_now('%c' * 100)
strftime_now('%c' * 120)
strftime_now(1)
range(9999999999)
range(-5, 5, 3)|list
dict(1, 2)
dict([[1, 2, 3]])
dict([1])
dict({'a': 1}, **{'b': 2})
dict(**{1: 2})
s.split(sep=',', sep='x')
s.split(',', sep=',')
'a'.startswith((1,))
'a'.endswith(('b', 1))
'a'.find('a', 'x')
'a'.find()
'a'.rfind('', 1)
'東京東京'.rfind('東')
'東京'.count('')
'a'.partition('')
'a b'.partition(' ')
'a'.join(1)
'a'.zfill('x')
'+5'.zfill(4)
'éé'.center(7, '東')
'aXbX'.rsplit('X')
'aXbX'.rsplit('X', 1)
'\t a \u2003 b '.rsplit()
'a  b  c'.rsplit(none, 1)
'Aa Bb'.istitle()
'ǅ'.istitle()
'aB'.swapcase()
'ⅷ'.upper()
'Ⓐ'.lower()
'ﬃ'.title()
"o'Σ.Σ".lower()
'ΑΣ\u0301\u0301'.lower()
true is sameas true
s is sameas s
1 is filter
1.5 is float
nested is sameas nested
range(3) is iterable
range(0) or 'empty'
range(2) and 'full'
{range(3): 1}
{namespace(): 1}|length
{(1, (2, 'a')): 1}[(1, (2, 'a'))]
{1.5: 'x', 1e300: 'y'}[1.5]
undef|length
1.0e5
123456.789e3
1e21
100000000000000000000.0
0.00001234
1.5e-7
5e-324 / 2
[range(3), range(0, 5, 2), d.items(), d.values()]
[undef, none, true, -0.0, 1e16]
a.b.c.d
x.y if x is defined else 'no'
s|upper(1)
s|indent(width=2, width=3)
s|nosuch(1)
(s|upper)()
s is upper()
s|a.b
s is a.b
[1, 2](3)
f(1, 2, *l, **d)
""".strip("\n").split("\n")

TEMPLATES = [
    "{% macro m(caller='x') %}{{ caller }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ caller }}{% endmacro %}{% call m() %}{% endcall %}",
    "{% macro o() %}{% macro i() %}{{ caller() }}{{ varargs }}{% endmacro %}{{ i(1, caller=o) if false }}x{% endmacro %}{{ o() }}",
    "{% for x in l %}{{ loop(1) }}{% endfor %}", "{% for x in l %}{{ loop == loop }}{{ 1 if loop }}{{ {loop: 1}|length }}{% endfor %}",
    "{% set %}", "{% set ns.1 = 2 %}", "{% set = 2 %}", "{% for %}", "{% for in l %}", "{% for x of l %}", "{% macro 1() %}", "{% macro m(1) %}",
    "{% macro m(a b) %}", "{% macro m %}", "{% call(1) m() %}", "{% with a %}", "{% with 1=2 %}", "{% with a=1 b=2 %}", "{% with a=1, b=undef.x %}{% endwith %}", "{% filter 1 %}",
    "{% filter upper %}{{ undef.x }}{% endfilter %}", "{% set x %}{{ undef.x }}{% endset %}", "{% set x|int('a', 'b', 'c') %}{% endset %}", "{% print 1 2 %}", "{% generation %}{{ undef.x }}{% endgeneration %}",
    "{% if t %}{{ 1 }", "{{ '\\", "{{ 'a\\'", "{% if t %}{% else %}{% elif t %}{% endif %}", "{{ 1 }} }} %} #}", "{% raw %}{% endraw -%}  x", "{% raw %}{%- endraw +%}  x", "{#", "{#-", "a{#", "{% raw -%}",
    "{{ s|upper\n}}", "{%\nif t\n%}\nx\n{%\nendif\n%}", "{{ (1,\n2) }}", "{% for a, b in d.items() if a != 'b' %}{{ a }}{{ loop.last }}{% endfor %}", "{% for a in l if a > 1 %}{% else %}{{ undef.x }}{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% set a, (b, ns.c) = 1, (2, 3) %}", "{% set ns = namespace() %}{% set a, (b, ns.c) = 1, (2, 3) %}{{ ns.c }}",
    "{% macro m(a, b, c, d, e, f, g, h) %}{{ h }}{% endmacro %}{{ m(1,2,3,4,5,6,7,8) }}{{ m(h=1) }}",
    "{% set x1=1 %}{% set x2=2 %}{% set x3=3 %}{% set x4=4 %}{% set x5=5 %}{% set x6=6 %}{% set x7=7 %}{% set x8=8 %}{% set x9=9 %}{{ x1 + x9 }}",
    "{{ {'a':1,'b':2,'c':3,'d':4,'e':5,'f':6,'g':7,'h':8,'i':9,'j':10,'k':11,'l':12,'m':13,'n':14,'o':15,'p':16,'q':17,'r':18}.r }}",
    "{{ dict(range(200)|map('string')|map('list')|map('first')|unique|map('upper')|map('batch', 1)|map('first')|map('list')|list|length|list) }}",
    "{% set ns = namespace(d={}) %}{% for i in range(100) %}{% set ns.d = dict(ns.d, **{i|string: i}) %}{% endfor %}{{ ns.d['57'] }}{{ ns.d|length }}",
]

# For the fuzz target only: (template, context as bytes).
RAW = [
    ("{{ a }}", b"{\"a\": 1"), ("{{ a }}", b"{\"a\":\n NaN}"), ("{{ a }}", b"[1, 2]"), ("{{ a }}", b""), ("{{ a }}", b"{\"a\": \"\xff\"}"),
    ("{{ a }}", b"{\"a\": " + b"[" * 140 + b"]" * 140 + b"}"), ("{{ a }}", b"{\"a\": \"\\\"[[\\u0000\"}"), ("{{ a }}", b"{\"a\": [[[1.5]], {}, \"\xc3\xa9\"]} ]"),
    ("{{ " + "(" * 140, b"{}"), ("{{ " + "-" * 140 + "1 }}", b"{}"), ("{{ " + "not " * 130 + "1 }}", b"{}"), ("{% if 1 %}" * 140, b"{}"), ("{{ " + "[" * 120 + "1" + "]" * 120 + " }}", b"{}"),
    ("{% for " + "(" * 140 + "a", b"{}"), ("{{ " + "1 if 1 else " * 140 + "1 }}", b"{}"), ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", b"{}"),
    ("{% set n = namespace() %}{% set n.n = n %}{{ n }}", b"{}"), ("{% set n = namespace(v=[]) %}{% for i in range(200) %}{% set n.v = [n.v] %}{% endfor %}{{ n.v }}{{ n.v == n.v }}", b"{}"),
    ("{% set n = namespace(v=()) %}{% for i in range(200) %}{% set n.v = (n.v,) %}{% endfor %}{{ {n.v: 1} }}", b"{}"), ("{{ 'a' * 200000000 }}", b"{}"), ("{{ 'x' * 5000 }}{{ 'y' * 100 ~ 'z' }}" * 3, b"{}"),
    ("{% set n = namespace(s='x') %}{% for i in range(40) %}{% set n.s = n.s + n.s %}{% endfor %}", b"{}"), ("{% for i in range(60000) %}{% for j in range(60000) %}{% endfor %}{% endfor %}", b"{}"),
    ("{{ 'ab' * 300000000 }}", b"{}"), ("{{ [1] * 300000000 }}", b"{}"), ("{% set g = l|map('string') %}{% for x in g %}{% for y in g %}{{ x }}{% endfor %}{% endfor %}", b'{"l": [1, 2]}'),
    ("{{ 'a" + "é" * 200 + "'|upper|tojson(true) }}{{ 'x'.center(200) }}", b"{}"), ("\r\n{{ a\r\n.b\r }}\r", b"{}"), ("{{ 0x }}{{ 1", b"{}"), ("{{ 1" + "0" * 500 + ".0 }}", b"{}"), ("{{ 99999999999999999999 }}", b"{}"), ("{{ 0xfffffffffffffffff }}", b"{}"),
]
