/* The JSON that a call sends, made field by field; zero, NULL and false are left out. The first failure stays: look at the
 * result of order_text() only. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "husk.h"

struct order {
    json_t *object;
    struct husk_error *error;
    int result;
};

void order_begin(struct order *order, struct husk_error *error);
void order_put_text(struct order *order, const char *key, const char *text);
void order_put_bytes(struct order *order, const char *key, const char *data, size_t length);
void order_put_number(struct order *order, const char *key, uint64_t number);
void order_put_real(struct order *order, const char *key, double number);
void order_put_flag(struct order *order, const char *key, bool flag);
void order_put_list(struct order *order, const char *key, const char *const *texts, size_t count);
void order_put_variables(struct order *order, const struct husk_variable *variables, size_t count);
/* Takes the reference; NULL: there was no memory. */
void order_put(struct order *order, const char *key, json_t *value);
/* The text, free(); ends the order in any case. 0 or why not. */
int order_text(struct order *order, char **ret);
