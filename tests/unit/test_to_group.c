/* SPDX-License-Identifier: Apache-2.0 */
/* A store that is opened to its writer's group: which files get which rights. */
#include "unit/store_model.h"

#include <grp.h>

#define GROUP 4711
#define OTHER 4712

static char dir[64];

static void set(const char *name, uid_t uid, gid_t gid, mode_t mode)
{
	char path[120];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(chown(path, uid, gid), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void check(const char *name, gid_t gid, mode_t mode)
{
	char path[120];
	struct stat st;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_gid, gid);
	assert_int_equal(st.st_mode & 07777, mode);
}

static void touch(const char *name)
{
	char path[120];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static void rights(void **state)
{
	struct model m = { .random = 1 };
	struct store_writer *w;
	struct err err = { 0 };
	char path[120];
	(void)state;
	if (geteuid()) {
		print_message("gives files away: run it as root\n");
		skip();
	}
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	assert_int_equal(model_commit(&m, w, 5, &err), 0);
	touch("seg/of-another-user");
	touch("seg/.hidden");
	touch("seg/mine");
	touch("notes");
	snprintf(path, sizeof(path), "%s/seg/link", dir);
	assert_int_equal(symlink("../notes", path), 0);
	set("", 0, OTHER, 0700);
	set("seg", 0, OTHER, 0700);
	set("HEADER", 0, OTHER, 0600);
	set("MANIFEST", 0, GROUP, 0604);
	set("seg/of-another-user", 1, OTHER, 0600);
	set("seg/.hidden", 0, OTHER, 0600);
	set("seg/mine", 0, OTHER, 02660);
	set("notes", 0, OTHER, 0600);
	assert_int_equal(setegid(GROUP), 0);
	store_open_to_group(w);
	assert_int_equal(setegid(0), 0);
	check("", GROUP, 0750);
	check("seg", GROUP, 0750);
	check("HEADER", GROUP, 0640);
	check("MANIFEST", GROUP, 0644);
	check("seg/10s-00000001.seg", GROUP, 0640);
	check("seg/of-another-user", OTHER, 0600);
	check("seg/.hidden", OTHER, 0600);
	check("seg/mine", GROUP, 02660);
	check("notes", OTHER, 0600);
	/* Those that had the rights keep the others that they have */
	set("seg", 0, GROUP, 0751);
	store_open_to_group(w);
	check("seg", 0, 0751);
	store_writer_close(w);
	model_check(&m, dir);
	model_fini(&m);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(rights) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
