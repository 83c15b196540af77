/* /openapi.json: the surface as OpenAPI 3.1, made of the tables of routes and fields. */
#include "serve/inside.h"
#include <string.h>

static int put_type(struct buf *b, const struct field *d)
{
    static const char *const types[] = {
        "\"type\":\"boolean\"",
        "\"type\":\"integer\"",
        "\"type\":\"number\"",
        "\"type\":\"string\"",
        "\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"string\"}}]",
        "\"type\":\"object\"",
        "\"type\":\"array\"",
        NULL};
    int bad = buf_putc(b, '{');
    if (types[d->type])
        bad = bad || buf_puts(b, types[d->type]);
    if (d->hi > d->lo && (d->type == FIELD_INT || d->type == FIELD_NUMBER))
        bad = bad || buf_printf(b, ",\"minimum\":%.17g,\"maximum\":%.17g", d->lo, d->hi);
    if (d->use == FIELD_NEUTRAL)
        bad = bad || out_comma(b) || buf_printf(b, "\"const\":%s", d->value);
    else if (d->value)
        bad = bad || out_comma(b) || buf_printf(b, "\"default\":%s", d->value);
    bad = bad || out_key(b, "description") || out_str(b, d->doc);
    return bad || buf_putc(b, '}');
}

static int put_schema(struct buf *b, unsigned endpoint)
{
    int bad = buf_puts(b, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < n_fields && !bad; i++)
        if ((fields[i].endpoints & endpoint) && fields[i].use != FIELD_REFUSED)
            bad = out_key(b, fields[i].name) || put_type(b, &fields[i]);
    return bad || buf_puts(b, "}}");
}

static const char *name_of(unsigned endpoint)
{
    int bit = 0;
    while (endpoint >> bit > 1)
        bit++;
    return endpoint_name(bit);
}

static int put_operation(struct buf *b, const struct route *r)
{
    int bad = buf_printf(b, "\"%s\":{\"summary\":", r->flags & ROUTE_POST ? "post" : "get") ||
              out_str(b, r->summary);
    if (r->fields)
        bad =
            bad ||
            buf_printf(
                b,
                ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":{\"$ref\":"
                "\"#/components/schemas/%s\"}}}}",
                name_of(r->fields));
    if (strchr(r->path, '*'))
        bad =
            bad ||
            buf_puts(
                b, ",\"parameters\":[{\"name\":\"id\",\"in\":\"path\",\"required\":true,\"schema\":{\"type\":"
                   "\"string\"}}]");
    bad =
        bad ||
        buf_puts(
            b,
            ",\"responses\":{\"200\":{\"description\":\"the answer\"},\"default\":{\"description\":\"an error\","
            "\"content\":{\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/error\"}}}}}");
    if (r->flags & ROUTE_OPEN)
        bad = bad || buf_puts(b, ",\"security\":[]");
    return bad || buf_putc(b, '}');
}

static int put_paths(struct buf *b)
{
    int bad = buf_puts(b, "\"paths\":{");
    for (int i = 0; i < n_routes && !bad; i++) {
        const char *star = strchr(routes[i].path, '*');
        bad =
            out_comma(b) ||
            buf_printf(b, "\"%.*s%s\":{", (int)(star ? star - routes[i].path : (long)strlen(routes[i].path)),
                       routes[i].path, star ? "{id}" : "") ||
            put_operation(b, &routes[i]) || buf_putc(b, '}');
    }
    return bad || buf_putc(b, '}');
}

/* The table of fields as it is, for documents and tests: what is refused has no place in a schema. */
static int put_field(struct buf *b, const struct field *d)
{
    int bad = buf_puts(b, "{\"name\":") || out_str(b, d->name) || buf_puts(b, ",\"endpoints\":[");
    for (int bit = 0; bit < ENDPOINT_BITS && !bad; bit++)
        if (d->endpoints >> bit & 1)
            bad = out_comma(b) || out_str(b, endpoint_name(bit));
    bad = bad || buf_puts(b, "],\"type\":") || out_str(b, field_type_name(d->type)) ||
          buf_puts(b, ",\"use\":") || out_str(b, field_use_name(d->use));
    if (d->hi > d->lo)
        bad = bad || buf_printf(b, ",\"minimum\":%.17g,\"maximum\":%.17g", d->lo, d->hi);
    return bad || buf_printf(b, ",\"value\":%s,\"doc\":", d->value ? d->value : "null") ||
           out_str(b, d->doc) || buf_putc(b, '}');
}

static int put_fields(struct buf *b)
{
    int bad = buf_puts(b, ",\"x-fields\":[");
    for (int i = 0; i < n_fields && !bad; i++)
        bad = out_comma(b) || put_field(b, &fields[i]);
    return bad || buf_putc(b, ']');
}

void api_openapi(struct server *s, struct exchange *x)
{
    struct buf b = {0};
    int bad = buf_printf(&b, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"Hasten\",\"version\":\"%s\"},",
                         HASTEN_VERSION) ||
              put_paths(&b) || buf_puts(&b, ",\"components\":{\"schemas\":{");
    (void)s;
    for (int bit = 0; bit < ENDPOINT_BITS && !bad; bit++)
        bad = out_key(&b, endpoint_name(bit)) || put_schema(&b, 1u << bit);
    bad =
        bad ||
        buf_puts(
            &b,
            ",\"error\":{\"type\":\"object\",\"properties\":{\"error\":{\"type\":\"object\",\"properties\":{"
            "\"message\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"},\"param\":{\"type\":[\"string\","
            "\"null\"]},\"code\":{\"type\":[\"string\",\"null\"]}}}}}},\"securitySchemes\":{\"key\":{\"type\":"
            "\"http\",\"scheme\":\"bearer\"}}},\"security\":[{\"key\":[]}]") ||
        put_fields(&b) || buf_putc(&b, '}');
    exchange_answer_json(x, &b, bad);
}
