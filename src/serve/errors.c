/* Errors of requests (errors.h). Owns which status an error of the library becomes. */
#include "serve/errors.h"
#include "serve/json_out.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *type_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 503:
        return "overloaded_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

bool fault_set(struct fault *f, int status, const char *code, const char *param, const char *fmt, ...)
{
    struct hasten_error clean; /* which makes one line of UTF-8 of whatever is quoted */
    char text[sizeof f->message];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    error_set(&clean, HASTEN_ERR_USAGE, "%s", text);
    *f = (struct fault){.status = status, .type = type_of(status), .code = code};
    snprintf(f->message, sizeof f->message, "%s", clean.message);
    error_set(&clean, HASTEN_ERR_USAGE, "%s", param ? param : "");
    snprintf(f->param, sizeof f->param, "%.95s", clean.message);
    f->retry_after = status == 429 || status == 503 ? 1 : 0;
    return false;
}

bool fault_of(struct fault *f, const struct hasten_error *err)
{
    switch (err->status) {
    case HASTEN_ERR_USAGE:
    case HASTEN_ERR_FILE: /* JSON, a grammar: they came with the request */
    case HASTEN_ERR_UNSUPPORTED:
    case HASTEN_ERR_LIMIT:
        return fault_set(f, 400, NULL, NULL, "%s", err->message);
    case HASTEN_ERR_TEMPLATE:
        return fault_set(f, 400, "template_error", "messages", "%s", err->message);
    case HASTEN_ERR_FULL:
        return fault_set(f, 400, "context_length_exceeded", NULL, "%s", err->message);
    case HASTEN_ERR_NON_FINITE:
        return fault_set(f, 500, "non_finite", NULL, "%s", err->message);
    case HASTEN_ERR_MEMORY:
        return fault_set(f, 503, "out_of_memory", NULL, "%s", err->message);
    case HASTEN_ERR_CANCELLED:
        return fault_set(f, 503, "cancelled", NULL, "%s", err->message);
    default:
        return fault_set(f, 500, NULL, NULL, "%s", err->message);
    }
}

int fault_json_as(const struct fault *f, bool anthropic, struct buf *out)
{
    return buf_puts(out,
                    anthropic ? "{\"type\":\"error\",\"error\":{\"message\":" : "{\"error\":{\"message\":") ||
           out_str(out, f->message) || buf_puts(out, ",\"type\":") || out_str(out, f->type) ||
           buf_puts(out, ",\"param\":") || out_str(out, f->param[0] ? f->param : NULL) ||
           buf_puts(out, ",\"code\":") || out_str(out, f->code) || buf_puts(out, "}}");
}

int fault_json(const struct fault *f, struct buf *out)
{
    return fault_json_as(f, false, out);
}
