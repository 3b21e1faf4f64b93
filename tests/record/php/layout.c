/* SPDX-License-Identifier: Apache-2.0 */
/*
 * include/php_wire.h against the headers of the PHP that is installed. 77: of an unknown version.
 */
#include <php.h>
#include <zend_generators.h>

#include <stddef.h>
#include <stdio.h>
#include "php_wire.h"

#define SAME(ours, theirs) \
	(ours) == (theirs) \
		? 0 \
		: printf("%s is %zu, not %zu\n", #theirs, (size_t)(theirs), (size_t)(ours))
#define FIELD(ours, o, theirs, t) \
	SAME(offsetof(struct ours, o), offsetof(theirs, t)) | \
		SAME(sizeof(((struct ours *)0)->o), sizeof(((theirs *)0)->t))

int main(void)
{
	const struct php_layout *l = php_layouts;
	int bad = 0;
	while (l < php_layouts + PHP_LAYOUTS && l->api != ZEND_MODULE_API_NO)
		l++;
	if (l == php_layouts + PHP_LAYOUTS || ZEND_DEBUG || USING_ZTS)
		return 77;
	bad |= SAME(l->current, offsetof(zend_executor_globals, current_execute_data));
	bad |= SAME(l->place + offsetof(struct php_place, file), offsetof(zend_op_array, filename));
	bad |= SAME(l->place + offsetof(struct php_place, line_start),
		    offsetof(zend_op_array, line_start));
	bad |= SAME(l->place + offsetof(struct php_place, line_end),
		    offsetof(zend_op_array, line_end));
	bad |= SAME(l->place + sizeof(struct php_place) <= PHP_CODE_BYTES, 1);
	bad |= FIELD(php_frame, opline, zend_execute_data, opline);
	bad |= FIELD(php_frame, function, zend_execute_data, func);
	bad |= FIELD(php_frame, object, zend_execute_data, This.value.obj);
	bad |= FIELD(php_frame, info, zend_execute_data, This.u1.type_info);
	bad |= FIELD(php_frame, previous, zend_execute_data, prev_execute_data);
	bad |= FIELD(php_function, type, zend_op_array, type);
	bad |= FIELD(php_function, name, zend_op_array, function_name);
	bad |= FIELD(php_function, scope, zend_op_array, scope);
	bad |= FIELD(php_function, name, zend_internal_function, function_name);
	bad |= FIELD(php_function, scope, zend_internal_function, scope);
	bad |= FIELD(php_string, hash, zend_string, h);
	bad |= FIELD(php_string, length, zend_string, len);
	bad |= SAME(sizeof(struct php_string), offsetof(zend_string, val));
	bad |= SAME(PHP_OP_LINE, offsetof(zend_op, lineno));
	bad |= SAME(PHP_CLASS_NAME, offsetof(zend_class_entry, name));
	bad |= SAME(PHP_GENERATOR_FRAME, offsetof(zend_generator, execute_data));
	bad |= SAME(PHP_GENERATOR_FAKE, offsetof(zend_generator, execute_fake));
	bad |= SAME(PHP_CALL_CODE, ZEND_CALL_CODE);
	bad |= SAME(PHP_CALL_TOP, ZEND_CALL_TOP);
	bad |= SAME(PHP_EVAL_CODE, ZEND_EVAL_CODE);
	bad |= SAME(PHP_IS_USER(ZEND_USER_FUNCTION), 1) | SAME(PHP_IS_USER(ZEND_EVAL_CODE), 1);
	bad |= SAME(PHP_IS_USER(ZEND_INTERNAL_FUNCTION), 0);
	printf("API %u\n", l->api);
	return bad != 0;
}
