/* The JSON schema of receipts (receipts.h), from the registry: what a receipt names are methods that exist. */
#include "cli/receipts.h"
#include "cli/cli.h"
#include <jansson.h>

static json_t *described(json_t *v, const char *text)
{
    json_put(&v, "description", json_string(text));
    return v;
}

static json_t *of_type(const char *type)
{
    return json_pack("{s:s}", "type", type);
}

static json_t *number(double least)
{
    return json_pack("{s:s, s:f}", "type", "number", "minimum", least);
}

static json_t *text_like(const char *pattern)
{
    return json_pack("{s:s, s:s}", "type", "string", "pattern", pattern);
}

/* An object whose `required` are all of its first n_required properties. */
static json_t *object(json_t *properties, const char *required)
{
    json_t *v = json_pack("{s:s}", "type", "object"), *list = json_array();
    for (const char *at = required; *at;) {
        const char *end = at;
        while (*end && *end != ' ')
            end++;
        json_add(&list, json_bytes(at, (size_t)(end - at)));
        at = *end ? end + 1 : end;
    }
    json_put(&v, "required", list);
    json_put(&v, "properties", properties);
    return v;
}

/* An estimate with its interval, its name being `value` or `median`. */
static json_t *interval(const char *name, bool level)
{
    json_t *p = json_object();
    json_put(&p, name, number(0));
    json_put(&p, "lo", number(0));
    json_put(&p, "hi", number(0));
    if (level)
        json_put(&p, "level", described(number(0), "coverage of the interval; 0: there is none"));
    return object(p, level ? "median lo hi level" : "value lo hi");
}

static json_t *phase(void)
{
    json_t *p = json_object();
    json_put(&p, "plain_tps", described(number(0), "of the plain engine in the same run, tokens a second"));
    json_put(&p, "tps", number(0));
    json_put(&p, "ratio",
             described(interval("median", true), "speed with the method over the plain engine's"));
    json_put(&p, "pages_read", described(number(0), "share of the KV pages that were read"));
    return object(p, "ratio");
}

/* "^(attend (moba|quest)|cache (h2o))(:.*)?$", of all methods that are registered. */
static void methods_pattern(struct buf *out)
{
    int32_t n;
    const struct method *const *all = methods_all(&n);
    buf_puts(out, "^(");
    for (int stage = 0, any = 0; stage < METHOD_STAGES; stage++) {
        bool first = true;
        for (int32_t i = 0; i < n; i++) {
            if ((int)all[i]->stage != stage)
                continue;
            buf_printf(out, first ? "%s%s (%s" : "%s%s%s", first && any ? "|" : "",
                       first ? method_stage_name((enum method_stage)stage) : "|", all[i]->name);
            first = false;
        }
        any |= !first;
        buf_puts(out, first ? "" : ")");
    }
    buf_puts(out, ")(:.*)?$");
}

static json_t *knobs(void)
{
    struct buf pattern = {0};
    methods_pattern(&pattern);
    json_t *v = json_pack("{s:s}", "type", "array");
    json_put(&v, "items", text_like(pattern.data ? pattern.data : ""));
    buf_free(&pattern);
    return described(v, "each method with all its knobs");
}

static json_t *machine(void)
{
    json_t *p = json_object();
    json_put(&p, "cpu", of_type("string"));
    json_put(&p, "threads", json_pack("{s:s, s:i}", "type", "integer", "minimum", 1));
    json_put(&p, "kernels", described(of_type("string"), "the instruction set in use"));
    json_put(&p, "read_gbs", described(number(0), "the limit of memory, GB/s"));
    json_put(&p, "load",
             described(number(0), "processes that wanted a CPU at the end, the measurement's included"));
    return object(p, "cpu threads kernels");
}

static json_t *gain(void)
{
    json_t *p = json_object();
    json_put(&p, "prefill", phase());
    json_put(&p, "decode", phase());
    json_put(&p, "answer", described(phase(), "whole answers, prompt included"));
    return object(p, "");
}

static json_t *damage(void)
{
    json_t *p = json_object();
    json_put(&p, "exact", described(of_type("boolean"), "the answers were compared, and were the same"));
    json_put(&p, "scored",
             described(json_pack("{s:s, s:i}", "type", "integer", "minimum", 0), "tokens, or answers"));
    json_put(&p, "kl", described(interval("value", false), "mean KL(plain || method), nats a token"));
    json_put(&p, "kl_p99", number(0));
    json_put(&p, "top1_agreement", interval("value", false));
    json_put(&p, "ppl_plain", number(0));
    json_put(&p, "ppl", number(0));
    return object(p, "kl top1_agreement");
}

json_t *receipt_schema(void)
{
    json_t *p = json_object(),
           *words = json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string");
    json_put(&p, "schema", json_pack("{s:i}", "const", 1));
    json_put(&p, "method", described(of_type("string"), "what was measured, as it was asked for"));
    json_put(&p, "knobs", knobs());
    json_put(&p, "model", of_type("string"));
    json_put(&p, "model_sha256", text_like("^[0-9a-f]{64}$"));
    json_put(&p, "commit",
             described(json_pack("{s:[ss]}", "type", "string", "null"), "of the program, where it is known"));
    json_put(&p, "date", text_like("^[0-9]{4}-[0-9]{2}-[0-9]{2}$"));
    json_put(&p, "machine", machine());
    json_put(&p, "workload", described(of_type("object"), "what was read and written"));
    json_put(&p, "gain", gain());
    json_put(&p, "damage", damage());
    json_put(&p, "commands", described(words, "that measured it"));
    json_t *v =
        object(p, "schema method knobs model model_sha256 date machine workload gain damage commands");
    json_put(&v, "$schema", json_string("https://json-schema.org/draft/2020-12/schema"));
    json_put(&v, "title",
             json_string("A receipt: what a method gains and what it costs, measured on one machine"));
    return v;
}
