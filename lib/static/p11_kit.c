/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stand in for p11-kit in the static program. GnuTLS asks p11-kit for keys on smart cards, whose
 * modules are libraries of the host. Each call answers that there is none: the certificates and
 * keys of ascribe are files.
 */
#define NONE(name) \
	void *name(void); \
	void *name(void) \
	{ \
		return (void *)0; \
	}

NONE(p11_kit_config_option)
NONE(p11_kit_message)
NONE(p11_kit_module_finalize)
NONE(p11_kit_module_get_flags)
NONE(p11_kit_module_get_name)
NONE(p11_kit_module_load)
NONE(p11_kit_module_release)
NONE(p11_kit_modules_load)
NONE(p11_kit_pin_file_callback)
NONE(p11_kit_pin_get_length)
NONE(p11_kit_pin_get_value)
NONE(p11_kit_pin_new_for_string)
NONE(p11_kit_pin_register_callback)
NONE(p11_kit_pin_request)
NONE(p11_kit_pin_unref)
NONE(p11_kit_pin_unregister_callback)
NONE(p11_kit_space_strdup)
NONE(p11_kit_space_strlen)
NONE(p11_kit_strerror)
NONE(p11_kit_uri_format)
NONE(p11_kit_uri_free)
NONE(p11_kit_uri_get_attribute)
NONE(p11_kit_uri_get_attributes)
NONE(p11_kit_uri_get_module_info)
NONE(p11_kit_uri_get_pin_source)
NONE(p11_kit_uri_get_pin_value)
NONE(p11_kit_uri_get_token_info)
NONE(p11_kit_uri_match_module_info)
NONE(p11_kit_uri_match_token_info)
NONE(p11_kit_uri_new)
NONE(p11_kit_uri_parse)
NONE(p11_kit_uri_set_attribute)
