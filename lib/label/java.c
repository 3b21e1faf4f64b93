/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * libascribe-label.so: the native methods of java/ascribe/Labels.java. Functions of the VM are
 * called by their index in the table that the JNI specification fixes ("Interface Function Table").
 * So building needs no JDK.
 */
#include <ascribe/label_thread.h>

#include <errno.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define KEY_ROOM 64    /* one byte more than a key may have: a longer one is refused */
#define VALUE_ROOM 260 /* more than a value may have, so that it is cut between characters */

typedef const void *const *jni_env; /* the table */
typedef void *jni_ref;

enum jni_index {
	JNI_GET_ARRAY_LENGTH = 171,
	JNI_NEW_BYTE_ARRAY = 176,
	JNI_GET_BYTE_ARRAY_REGION = 200,
	JNI_SET_BYTE_ARRAY_REGION = 208,
};

/* Copy at most size bytes of a byte[]; how many. -EINVAL: it is null. */
static int bytes_get(jni_env *env, jni_ref array, void *out, int size)
{
	int (*length)(jni_env *, jni_ref);
	void (*get)(jni_env *, jni_ref, int, int, void *);
	if (!array)
		return -EINVAL;
	memcpy(&length, *env + JNI_GET_ARRAY_LENGTH, sizeof(length));
	memcpy(&get, *env + JNI_GET_BYTE_ARRAY_REGION, sizeof(get));
	int n = length(env, array);
	n = n < size ? n : size;
	get(env, array, 0, n, out);
	return n;
}

EXPORTED int Java_ascribe_Labels_set(jni_env *env, jni_ref class, jni_ref key, jni_ref value);
EXPORTED int Java_ascribe_Labels_set(jni_env *env, jni_ref class, jni_ref key, jni_ref value)
{
	char k[KEY_ROOM], v[VALUE_ROOM];
	int key_len = bytes_get(env, key, k, sizeof(k));
	int value_len = bytes_get(env, value, v, sizeof(v));
	(void)class;
	if (key_len < 0)
		return key_len;
	return ascribe_thread_set(k, (size_t)key_len, value_len < 0 ? NULL : v,
				  value_len < 0 ? 0 : (size_t)value_len);
}

EXPORTED int Java_ascribe_Labels_setInt(jni_env *env, jni_ref class, jni_ref key, int64_t value);
EXPORTED int Java_ascribe_Labels_setInt(jni_env *env, jni_ref class, jni_ref key, int64_t value)
{
	char k[KEY_ROOM];
	int key_len = bytes_get(env, key, k, sizeof(k));
	(void)class;
	return key_len < 0 ? key_len : ascribe_thread_set_int(k, (size_t)key_len, value);
}

/* The labels as a new byte[], of no bytes when there are none. */
EXPORTED jni_ref Java_ascribe_Labels_save(jni_env *env, jni_ref class);
EXPORTED jni_ref Java_ascribe_Labels_save(jni_env *env, jni_ref class)
{
	char saved[ASCRIBE_THREAD_SAVED_MAX];
	jni_ref (*new_array)(jni_env *, int);
	void (*put)(jni_env *, jni_ref, int, int, const void *);
	int n = ascribe_thread_save(saved, sizeof(saved));
	(void)class;
	memcpy(&new_array, *env + JNI_NEW_BYTE_ARRAY, sizeof(new_array));
	memcpy(&put, *env + JNI_SET_BYTE_ARRAY_REGION, sizeof(put));
	jni_ref array = new_array(env, n);
	if (array && n)
		put(env, array, 0, n, saved);
	return array;
}

EXPORTED int Java_ascribe_Labels_restore(jni_env *env, jni_ref class, jni_ref saved);
EXPORTED int Java_ascribe_Labels_restore(jni_env *env, jni_ref class, jni_ref saved)
{
	char s[ASCRIBE_THREAD_SAVED_MAX + 1];
	int n = bytes_get(env, saved, s, sizeof(s));
	(void)class;
	return n < 0 ? n : ascribe_thread_restore(s, (size_t)n);
}
