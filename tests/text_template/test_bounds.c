/* The bounds of the template interpreter and of json_parse, each on both sides; places of errors;
 * hostile input on a small stack and in bounded time. */
#include "base/limits.h"
#include "base/mem.h"
#include "text/template.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

static struct hasten_error err;

static hasten_status render_bytes(const char *source, size_t len, const char *context, struct buf *out)
{
    struct template *t;
    json_t *j = json_loads(context, JSON_ALLOW_NUL, NULL);
    err = (struct hasten_error){0};
    hasten_status s = template_open("t", source, len, &t, &err);
    if (s == HASTEN_OK) {
        s = template_render(t, j, out, &err);
        template_close(t);
    }
    json_decref(j);
    return s;
}

static hasten_status render(const char *source)
{
    struct buf out = {0};
    hasten_status s = render_bytes(source, strlen(source), "{\"x\": \"abc\", \"l\": [1, 2]}", &out);
    buf_free(&out);
    return s;
}

static char *repeat(const char *a, size_t n, const char *middle, const char *b)
{
    struct buf s = {0};
    for (size_t i = 0; i < n; i++)
        buf_puts(&s, a);
    buf_puts(&s, middle);
    for (size_t i = 0; i < n; i++)
        buf_puts(&s, b);
    return s.data;
}

static hasten_status render_repeated(const char *a, size_t n, const char *middle, const char *b)
{
    char *s = repeat(a, n, middle, b);
    hasten_status st = render(s);
    mem_free(s);
    return st;
}

/* ---- places ------------------------------------------------------------------------------------------- */

static void test_places(void **state)
{
    (void)state;
    static const struct {
        const char *source, *message;
    } cases[] = {
        {"{{ nope.x }}", "t: line 1, column 9: 'nope' is undefined"},
        {"a\nb {{ x }}\n  {{ y + 1 }}", "t: line 3, column 8: 'y' is undefined"},
        {"\r\n\r{{ 1 // 0 }}", "t: line 3, column 6: division by zero"},
        {"é東🗼{{ x|nosuch }}", "t: line 1, column 9: no filter named 'nosuch'"},
        {"{{ x is nosuch }}", "t: line 1, column 9: no test named 'nosuch'"},
        {"{%- nosuch %}", "t: line 1, column 5: unknown tag 'nosuch'"},
        {"{% include 'x' %}", "t: line 1, column 4: the tag 'include' is unsupported in chat templates"},
        {"{% if x %}\n{{ x }", "t: line 2, column 6: unexpected '}'"},
        {"{% if x %}\n{{ x }}", "t: line 2, column 8: the template ends before 'elif'"},
        {"{{ x.nosuch() }}", "t: line 1, column 12: there is no attribute or item 'nosuch'"},
        {"{{ l.append(3) }}", "t: line 1, column 12: access to attribute 'append' is unsafe"},
        {"{% for a in l %}\n{{ raise_exception('no: ' ~ a) }}{% endfor %}", "t: line 2, column 19: no: 1"},
        {"{% for a, b in l %}{% endfor %}", "t: line 1, column 8: 'int' object is not iterable"},
        {"{# open", "t: line 1, column 1: this comment has no end tag"},
        {"\n{% raw %}x", "t: line 2, column 1: this raw block has no end tag"},
        {"{{ 'open }}", "t: line 1, column 4: this string has no end quote"},
        {"{{ 9223372036854775808 }}", "t: line 1, column 4: this integer does not fit in 64 bits"},
        {"{{ lipsum() }}", "t: line 1, column 10: 'lipsum' is unsupported in chat templates"},
        {"{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
         "t: line 1, column 42: macro 'm' takes at most 1 arguments, 2 were given"},
        {"{{ x.split(1) }}", "t: line 1, column 11: split needs a string, not 'int'"},
        {"{{ (x }}", "t: line 1, column 7: unexpected '}', expected ')'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(render(cases[i].source), HASTEN_ERR_TEMPLATE);
        assert_string_equal(err.message, cases[i].message);
    }
    assert_int_equal(render("{{ '\xff' }}"), HASTEN_ERR_TEMPLATE);
    assert_string_equal(err.message, "t: line 1, column 5: the template is not valid UTF-8");
}

/* A failing template leaves what was in the buffer. */
static void test_output_kept(void **state)
{
    (void)state;
    struct buf out = {0};
    buf_puts(&out, "before");
    assert_int_equal(render_bytes("text {{ a.b }}", 14, "{}", &out), HASTEN_ERR_TEMPLATE);
    assert_string_equal(out.data, "before");
    assert_int_equal(out.len, 6);
    assert_int_equal(render_bytes("+{{ a }}", 8, "{\"a\": \"x\\u0000y\"}", &out), HASTEN_OK);
    assert_int_equal(out.len, 10);
    assert_memory_equal(out.data, "before+x\0y", 11);
    assert_int_equal(render_bytes("x", 1, "[]", &out), HASTEN_ERR_TEMPLATE);
    buf_free(&out);
}

/* ---- limits ------------------------------------------------------------------------------------------- */

static void test_source_limit(void **state)
{
    (void)state;
    char *s = repeat("a", LIMIT_TEMPLATE_BYTES, "", "");
    struct buf out = {0};
    assert_int_equal(render_bytes(s, LIMIT_TEMPLATE_BYTES, "{}", &out), HASTEN_OK);
    assert_int_equal(out.len, LIMIT_TEMPLATE_BYTES);
    assert_int_equal(render_bytes(s, LIMIT_TEMPLATE_BYTES + 1, "{}", &out), HASTEN_ERR_TEMPLATE);
    buf_free(&out);
    mem_free(s);
}

static void test_depth_limits(void **state)
{
    (void)state;
    static const struct {
        const char *a, *middle, *b;
        size_t fits;
    } cases[] = {
        {"(", "1", ")", LIMIT_TEMPLATE_DEPTH - 1}, /* inside of "{{ }}", added below */
        {"[", "", "]", LIMIT_TEMPLATE_DEPTH - 1},
        {"not ", "1", "", LIMIT_TEMPLATE_DEPTH - 1},
        {"- ", "1", "", LIMIT_TEMPLATE_DEPTH - 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t over = 0; over < 2; over++) {
            char *body = repeat(cases[i].a, cases[i].fits + over, cases[i].middle, cases[i].b);
            struct buf s = {0};
            buf_printf(&s, "{{ %s }}", body);
            hasten_status st = render(s.data);
            if (over)
                assert_int_equal(st, HASTEN_ERR_TEMPLATE);
            else if (st != HASTEN_OK) /* the parser takes it; the evaluator may count one level more */
                assert_non_null(strstr(err.message, "nested deeper than"));
            buf_free(&s);
            mem_free(body);
        }
    }
    assert_int_equal(render_repeated("{% if x %}", LIMIT_TEMPLATE_DEPTH - 2, "y", "{% endif %}"), HASTEN_OK);
    assert_int_equal(render_repeated("{% if x %}", LIMIT_TEMPLATE_DEPTH + 1, "y", "{% endif %}"),
                     HASTEN_ERR_TEMPLATE);
    assert_int_equal(render("{% macro f(k) %}{{ f(k - 1) if k }}{% endmacro %}{{ f(20) }}"), HASTEN_OK);
    assert_int_equal(render("{% macro f(k) %}{{ f(k + 1) }}{% endmacro %}{{ f(1) }}"), HASTEN_ERR_TEMPLATE);
    assert_int_equal(
        render(
            "{% set n = namespace(v=[]) %}{% for i in range(100) %}{% set n.v = [n.v] %}{% endfor %}{{ n.v }}"),
        HASTEN_OK);
    assert_int_equal(
        render(
            "{% set n = namespace(v=[]) %}{% for i in range(200) %}{% set n.v = [n.v] %}{% endfor %}{{ n.v }}"),
        HASTEN_ERR_TEMPLATE);
    assert_int_equal(render("{% set n = namespace() %}{% set n.n = n %}{{ n }}"), HASTEN_ERR_TEMPLATE);
    assert_int_equal(
        render("{% for x in range(20) recursive %}{{ loop(range(x)) if loop.last }}{% endfor %}"), HASTEN_OK);
    assert_int_equal(render("{% for x in l recursive %}{{ loop(l) }}{% endfor %}"), HASTEN_ERR_TEMPLATE);
    assert_non_null(strstr(err.message, "nested deeper than"));
}

static void test_run_limits(void **state)
{
    (void)state;
    assert_int_equal(
        render("{% for i in range(1000) %}{% for j in range(100) %}{{ j }}{% endfor %}{% endfor %}"),
        HASTEN_OK);
    assert_int_equal(render("{% for i in range(1000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}"),
                     HASTEN_ERR_TEMPLATE);
    assert_non_null(strstr(err.message, "steps"));
    assert_int_equal(render("{{ range(100000)|length }}"), HASTEN_OK);
    assert_int_equal(render("{{ range(100001)|length }}"), HASTEN_ERR_TEMPLATE);
    assert_int_equal(render("{% set a = 'x' * 67108864 %}{{ a }}"), HASTEN_OK);
    assert_int_equal(render("{% set a = 'x' * 67108864 %}{{ a }}y"), HASTEN_ERR_TEMPLATE);
    assert_non_null(strstr(err.message, "output"));
    assert_int_equal(render("{% set a = 'x' * 200000000 %}"), HASTEN_OK);
    assert_int_equal(render("{% set a = 'x' * 300000000 %}"), HASTEN_ERR_TEMPLATE);
    assert_int_equal(render("{% set a = [1] * 200000000 %}"), HASTEN_ERR_TEMPLATE);
    assert_int_equal(
        render("{% set n = namespace(s='x') %}{% for i in range(40) %}{% set n.s = n.s + n.s %}{% endfor %}"),
        HASTEN_ERR_TEMPLATE);
    assert_int_equal(render("{{ 'ab' * 9223372036854775807 }}"), HASTEN_ERR_TEMPLATE);
    assert_int_equal(render("{{ 2 ** 62 }}"), HASTEN_OK);
    assert_int_equal(render("{{ 2 ** 63 }}"), HASTEN_ERR_TEMPLATE);
    assert_int_equal(render("{{ 7 ** 99999999999 }}"), HASTEN_ERR_TEMPLATE);
    assert_int_equal(render("{{ -9223372036854775807 - 1 }}"), HASTEN_OK);
    assert_int_equal(render("{{ -9223372036854775807 - 2 }}"), HASTEN_ERR_TEMPLATE);
    assert_int_equal(render("{{ (-9223372036854775807 - 1) // -1 }}"), HASTEN_ERR_TEMPLATE);
    assert_int_equal(render("{{ (-9223372036854775807 - 1) % -1 }}"), HASTEN_OK);
    assert_int_equal(render("{{ 9223372036854775807 | abs }}"), HASTEN_OK);
    assert_int_equal(render("{{ (-9223372036854775807 - 1) | abs }}"), HASTEN_ERR_TEMPLATE);
}

/* Appending in a loop costs the bytes appended, not the whole string each time. */
static void test_append_is_linear(void **state)
{
    (void)state;
    assert_int_equal(
        render(
            "{% set n = namespace(s='') %}{% for i in range(50000) %}{% set n.s = n.s + 'abcdefghijklmnopqrst' %}"
            "{% endfor %}{{ n.s|length }}"),
        HASTEN_OK);
}

/* ---- hostile input ------------------------------------------------------------------------------------ */

static const char *hostile;
static double hostile_seconds;
static hasten_status hostile_status;

static void *hostile_run(void *arg)
{
    struct timespec a, b;
    (void)arg;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    hostile_status = render(hostile);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    hostile_seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
    return NULL;
}

static void on_small_stack(const char *source, double seconds)
{
    pthread_attr_t attr;
    pthread_t thread;
#ifdef HASTEN_SANITIZED
    size_t stack = 4 << 20; /* the sanitizers' frames are several times larger */
    seconds *= 10;
#else
    size_t stack = 256 << 10;
#endif
    hostile = source;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, stack);
    assert_int_equal(pthread_create(&thread, &attr, hostile_run, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    if (hostile_seconds > seconds)
        fail_msg("%.40s...: %.3f s", source, hostile_seconds);
}

/* A letter repeated 200 million times is a few large copies, not 200 million small ones (a fuzzer's find). */
static void test_repetition_is_cheap(void **state)
{
    (void)state;
    on_small_stack("{% set a = 'a' * 200000000 %}", 0.6);
    assert_int_equal(hostile_status, HASTEN_OK);
    assert_int_equal(render("{{ ('ab' * 5)[7:] ~ ([1, 2] * 3) ~ ([] * 4) ~ ([1] * -1) ~ '' * 9 }}"),
                     HASTEN_OK);
}

static void test_hostile(void **state)
{
    (void)state;
    static const struct {
        const char *start, *a, *middle, *b, *end;
        size_t n;
        int ok;
    } cases[] = {
        {"{{ ", "(", "1", "", "", 1000000, 0},
        {"{{ ", "[", "1", "", "", 1000000, 0},
        {"{{ ", "{1:", "1", "", "", 300000, 0},
        {"{{ ", "not ", "1", "", " }}", 250000, 0},
        {"{{ ", "-", "1", "", " }}", 1000000, 0},
        {"{{ ", "f(", "1", "", "", 500000, 0},
        {"{{ ", "a[", "1", "", "", 500000, 0},
        {"", "{% if x %}", "", "", "", 100000, 0},
        {"", "{% for i in l %}", "", "", "", 60000, 0},
        {"{{ ", "1 if 1 else ", "1", "", " }}", 80000, 0},
        {"{{ ", "1 if 1 ", "", "", " }}", 100000, 0},
        {"{% for ", "(", "a", "", " in l %}", 1000000, 0},
        {"", "{% set a %}", "", "", "", 90000, 0},
        {"", "{% macro m() %}", "", "", "", 60000, 0},
        {"{{ 1", "+1", "", "", " }}", 500000, 1},
        {"{{ 1", "**1", "", "", " }}", 300000, 1},
        {"{{ x", "|upper", "", "", " }}", 150000, 1},
        {"{{ x", "~x", "", "", " }}", 500000, 1},
        {"{{ 1", " or 1", "", "", " }}", 200000, 1},
        {"{{ 1", "<2", "", "", " }}", 500000, 1},
        {"", "{{", "", "", "", 500000, 0},
        {"", "{%", "", "", "", 500000, 0},
        {"", "{#", "", "", "", 500000, 0},
        {"", "{%- ", "", "", "", 250000, 0},
        {"{% if 0 %}", "{% elif 0 %}", "", "", "{% endif %}", 80000, 1},
        {"", " \n", "{{- x }}", "", "", 500000, 1},
        {"{% raw %}", "{% endra %}", "", "", "", 90000, 0},
        {"", "{# #}", "", "", "", 200000, 1},
        {"{{ '", "\\x41", "", "", "' }}", 250000, 1},
        {"{{ '", "a' '", "", "", "' }}", 200000, 1},
        {"{{ ", "a b", "", "", " }}", 300000, 0},
        {"{{ [", "x,", "", "", "]|length }}", 500000, 1},
        {"{{ {", "x:1,", "", "", "}|length }}", 250000, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf s = {0};
        char *body = repeat(cases[i].a, cases[i].n, cases[i].middle, cases[i].b);
        buf_printf(&s, "%s%s%s", cases[i].start, body, cases[i].end);
        /* deep nesting is refused at once; what is long but flat may take its time, in proportion */
        on_small_stack(s.data, cases[i].ok ? 1.0 : 0.1);
        if (cases[i].ok && hostile_status != HASTEN_OK)
            fail_msg("%.40s...: %s", s.data, err.message);
        if (!cases[i].ok)
            assert_int_equal(hostile_status, HASTEN_ERR_TEMPLATE);
        buf_free(&s);
        mem_free(body);
    }
}

/* Every way to spend the steps must end in time. */
static void test_work_is_bounded(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if 'b' in s %}{% endif %}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s[500000] }}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if s == s[:-1] ~ 'b' %}{% endif %}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set t = s|upper %}{% endfor %}",
        "{% set s = ' ' * 1000000 %}{% for i in range(100000) %}{% set t = s|trim %}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set t = s.strip('a' * 1000) %}{% endfor %}",
        "{% set s = 'ab' * 500000 %}{% for i in range(100000) %}{% set t = s.rsplit('a' * 1000) %}{% endfor %}",
        "{% set l = range(100000)|list %}{% for i in range(100000) %}{% if -1 in l %}{% endif %}{% endfor %}",
        "{% set l = range(100000)|list %}{% for i in range(100000) %}{% set t = l|sort %}{% endfor %}",
        "{% set l = range(100000)|list %}{% for i in range(100000) %}{% set t = l|tojson %}{% endfor %}",
        "{% set l = range(100000)|list %}{% for i in range(100000) %}{% set t = l == l + [] %}{% endfor %}",
        "{% set s = 'a' * 100000 %}{% for i in range(100000) %}{% set t = s.rfind('aaab') %}{% endfor %}",
        "{% set s = 'a' * 100000 %}{% for i in range(100000) %}{% set t = '%s' % s %}{% endfor %}",
        "{% set s = '\xce\xa3:' * 30000 %}{% for i in range(100000) %}{% set t = s|lower %}{% endfor %}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for x in [1, 1] recursive %}{{ loop([1, 1]) if loop.depth < 40 }}{% endfor %}",
        "{% set l = range(100000)|list %}{% for i in range(100000) %}{% set t = l|groupby('x') %}{% endfor %}",
        "{% set l = range(100000)|list %}{% for i in range(100000) %}{% set t = l|slice(50000) %}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        on_small_stack(cases[i], 5.0);
        if (hostile_status != HASTEN_ERR_TEMPLATE)
            fail_msg("%s: no bound stopped it", cases[i]);
    }
}

/* ---- JSON --------------------------------------------------------------------------------------------- */

static hasten_status parse(const char *text)
{
    json_t *j = NULL;
    err = (struct hasten_error){0};
    hasten_status s = json_parse("in.json", text, strlen(text), &j, &err);
    json_decref(j);
    return s;
}

static void test_json(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"[1, 2", "in.json: line 1, column 5: ']' expected near end of file"},
        {"{\"a\": 1,\n \"\xc3\xa9\": NaN}", "in.json: line 2, column 9: invalid token near 'NaN'"},
        {"[Infinity]", NULL},
        {"[1] x", NULL},
        {"", NULL},
        {"['a']", NULL},
        {"[1e999]", NULL},
        {"[\"\xff\"]", NULL},
        {"[99999999999999999999]", NULL},
        {"{\"a\" 1}", NULL},
    };
    assert_int_equal(parse("{\"a\": [1, 2.5, \"x\\u0000y\", null, true, \"\\ud83d\\ude00\"]}"), HASTEN_OK);
    assert_int_equal(parse("7"), HASTEN_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(parse(bad[i].text), HASTEN_ERR_FILE);
        if (bad[i].message)
            assert_string_equal(err.message, bad[i].message);
        assert_non_null(strstr(err.message, "in.json: line "));
    }
    char *s = repeat("[", LIMIT_JSON_DEPTH, "", "]");
    assert_int_equal(parse(s), HASTEN_OK);
    mem_free(s);
    s = repeat("[", LIMIT_JSON_DEPTH + 1, "", "]");
    assert_int_equal(parse(s), HASTEN_ERR_LIMIT);
    assert_string_equal(err.message, "in.json: line 1, column 129: nested deeper than 128");
    mem_free(s);
    s = repeat("{\"a\":", 1000000, "", "");
    assert_int_equal(parse(s), HASTEN_ERR_LIMIT);
    mem_free(s);
    assert_int_equal(parse("\"[[[[[[\\\"[[[{{{\""), HASTEN_OK);
}

static void test_json_size(void **state)
{
    (void)state;
    char *s = mem_alloc(LIMIT_JSON_BYTES + 1);
    json_t *j = NULL;
    assert_non_null(s);
    memset(s, ' ', LIMIT_JSON_BYTES + 1);
    s[0] = '1';
    assert_int_equal(json_parse("in", s, LIMIT_JSON_BYTES, &j, &err), HASTEN_OK);
    json_decref(j);
    assert_int_equal(json_parse("in", s, LIMIT_JSON_BYTES + 1, &j, &err), HASTEN_ERR_LIMIT);
    mem_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_output_kept),
        cmocka_unit_test(test_source_limit),
        cmocka_unit_test(test_depth_limits),
        cmocka_unit_test(test_run_limits),
        cmocka_unit_test(test_append_is_linear),
        cmocka_unit_test(test_repetition_is_cheap),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_work_is_bounded),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
