/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a pod's samples is on the pod's node. The agent there computes the answer: its own
 * `ascribe` runs by `kubectl exec`, beside the store. kubectl knows clusters, credentials and
 * proxies; nothing of that is here. It asks three things: which node, which agent, and the command.
 */
#include "cli/pod.h"

#include "cli/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGENT_NAMESPACE "ascribe" /* of deploy/kubernetes */
#define AGENT_STORE "/var/lib/ascribe"
#define AGENT_URL "http://127.0.0.1:4041" /* in the agent's pod */
#define NAME_MAX_K8S 253 /* bytes: RFC 1123 subdomain, Kubernetes' limit for names */

extern char **environ;

struct pod_request {
	const char *namespace, *pod, *node;
	const char *agents; /* namespace of the agents */
	const char *token;  /* record: our file with the token for captures; NULL: not given */
	bool records;	    /* the command is record: by the agent's daemon */
};

/* The commands that have --where. */
static const char *const asked[] = { "report", "diff",	 "blame",  "findings", "why",
				     "flame",  "export", "labels", "record",   NULL };

static bool is_name(const char *s, size_t len)
{
	return len && len <= NAME_MAX_K8S && s[0] != '-' && s[0] != '.' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") >= len;
}

/* Cut NAMESPACE/NAME in two. 0 or EXIT_USAGE. */
static int parse_pod(char *text, struct pod_request *r)
{
	char *slash = text ? strchr(text, '/') : NULL;
	if (!slash || !is_name(text, (size_t)(slash - text)) ||
	    !is_name(slash + 1, strlen(slash + 1))) {
		cmd_error("--pod %s: not NAMESPACE/NAME of a pod", text ? text : "");
		return EXIT_USAGE;
	}
	*slash = '\0';
	r->namespace = text;
	r->pod = slash + 1;
	return EXIT_OK;
}

static int cannot_run(int error)
{
	cmd_error("cannot run kubectl: %s; --pod asks the cluster by it", strerror(error));
	return EXIT_FAILED;
}

/* Run kubectl and take the one line that it prints. Its messages go to our stderr. */
static int ask_kubectl(char *const argv[], char *out, size_t cap)
{
	posix_spawn_file_actions_t files;
	int ends[2], status = 0;
	size_t n = 0;
	pid_t pid;
	if (pipe(ends))
		return cannot_run(errno);
	int rc = posix_spawn_file_actions_init(&files);
	if (!rc) {
		posix_spawn_file_actions_addclose(&files, ends[0]);
		posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
		rc = posix_spawnp(&pid, argv[0], &files, NULL, argv, environ);
		posix_spawn_file_actions_destroy(&files);
	}
	close(ends[1]);
	if (rc) {
		close(ends[0]);
		return cannot_run(rc);
	}
	for (ssize_t got = 1; got > 0 && n < cap - 1; n += got > 0 ? (size_t)got : 0)
		got = read(ends[0], out + n, cap - 1 - n);
	close(ends[0]);
	out[n] = '\0';
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return EXIT_OK;
	cmd_error("kubectl %s failed; its message is above", argv[1]);
	return EXIT_FAILED;
}

/* 0, or an exit status with the reason printed. */
static int find_node(const struct pod_request *r, char *out, size_t cap)
{
	char *argv[] = { (char *)"kubectl",
			 (char *)"get",
			 (char *)"pod",
			 (char *)"-n",
			 (char *)r->namespace,
			 (char *)r->pod,
			 (char *)"-o",
			 (char *)"jsonpath={.spec.nodeName}",
			 NULL };
	int rc = ask_kubectl(argv, out, cap);
	if (rc)
		cmd_say("for a pod that is gone name its node: --pod %s/%s --node NODE",
			r->namespace, r->pod);
	else if (!*out)
		cmd_error("pod %s/%s has no node yet", r->namespace, r->pod);
	return rc ? rc : *out ? EXIT_OK : EXIT_FAILED;
}

static int find_agent(const struct pod_request *r, char *out, size_t cap)
{
	char nodes[NAME_MAX_K8S + 64];
	snprintf(nodes, sizeof(nodes), "spec.nodeName=%s,status.phase=Running", r->node);
	char *argv[] = { (char *)"kubectl",
			 (char *)"get",
			 (char *)"pods",
			 (char *)"-n",
			 (char *)r->agents,
			 (char *)"-l",
			 (char *)"app.kubernetes.io/name=ascribe",
			 (char *)"--field-selector",
			 nodes,
			 (char *)"-o",
			 (char *)"jsonpath={.items[*].metadata.name}",
			 NULL };
	int rc = ask_kubectl(argv, out, cap);
	out[rc ? 0 : strcspn(out, " ")] = '\0'; /* in an upgrade there are two: either can read */
	if (!rc && !*out)
		cmd_error("no agent runs on node %s in namespace %s; ASCRIBE_NAMESPACE names "
			  "another namespace",
			  r->node, r->agents);
	return rc ? rc : *out ? EXIT_OK : EXIT_FAILED;
}

/* The pod's selector, and the user's: both must hold. NULL: out of memory. */
static char *both_selectors(const struct pod_request *r, const char *where)
{
	char *text = NULL;
	where += strspn(where, " \t\n");
	bool braces = !*where || *where == '{';
	if (asprintf(&text, "%snamespace=\"%s\",pod=\"%s\",%s", braces ? "{" : "", r->namespace,
		     r->pod,
		     !*where  ? "}"
		     : braces ? where + 1
			      : where) < 0)
		return NULL;
	return text;
}

/* The value of a text option of a parsed command; NULL: not given, or no such option. */
static const char *text_of(const struct opt_command *c, const void *parsed, const char *name)
{
	for (size_t i = 0; i < c->n_opts; i++)
		if (!strcmp(c->opts[i].name, name))
			return *(const char *const *)((const char *)parsed + c->opts[i].at);
	return NULL;
}

/*
 * Parse the command's arguments as the command will. *ret_where: its selector, "" for none. True:
 * go on. False: stop with *ret_exit, the reason or the help is printed.
 */
static bool check_command(struct pod_request *r, const struct opt_command *c, int argc, char **argv,
			  const char **ret_where, int *ret_exit)
{
	size_t size = 0;
	struct opt_args args;
	struct err err = { 0 };
	for (size_t i = 0; i < c->n_opts; i++)
		size = c->opts[i].at > size ? c->opts[i].at : size;
	char **copy = calloc((size_t)argc + 1, sizeof(*copy)); /* parsing changes its order */
	void *parsed = calloc(1, size + sizeof(struct opt_list));
	int rc = copy && parsed ? 0 : err_set(&err, -ENOMEM, "out of memory");
	if (!rc) {
		memcpy(copy, argv, (size_t)argc * sizeof(*copy));
		for (int i = 1; i < argc && !rc; i++)
			if (!strcmp(argv[i], "--"))
				rc = err_set(&err, -EINVAL, "-- has no place behind --pod");
		rc = rc ? rc : opt_parse(c, argc, copy, parsed, &args, &err);
		if (!rc && text_of(c, parsed, "output"))
			rc = err_set(&err, -EINVAL,
				     "--output would write on the node; redirect stdout: > FILE");
		const char *where = text_of(c, parsed, "where");
		*ret_where = where ? where : "";
		r->records = !strcmp(c->name, "record");
		r->token = r->records && !rc ? text_of(c, parsed, "token-file") : NULL;
		if (!rc && r->records && !r->token)
			rc = err_set(&err, -EINVAL,
				     "--token-file: the token for captures of the agent is needed");
		opt_release(c, parsed);
	}
	free(copy);
	free(parsed);
	*ret_exit = rc == OPT_HELP ? cmd_help(c) : rc == -ENOMEM ? EXIT_FAILED : EXIT_USAGE;
	if (rc < 0)
		cmd_error("%s: %s", c->name, err.text);
	return !rc;
}

/* Our file becomes the standard input of the command in the agent. 0 or an exit status. */
static int send_token(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && dup2(fd, STDIN_FILENO) >= 0)
		return EXIT_OK;
	cmd_error("cannot open the token's file %s: %s", file, strerror(errno));
	return EXIT_FAILED;
}

/* Become kubectl. Return only when that fails. Of a repeated option the last counts. */
static int run_in_agent(const struct pod_request *r, char *agent, int argc, char **argv,
			char *where)
{
	const char *const first[] = { "kubectl", "exec", "-n", r->agents, agent, "-c", "ascribe" },
			  *const read[] = { "--", "ascribe", argv[0], AGENT_STORE },
			  *const record[] = { "-i", "--", "ascribe", argv[0] },
			  *const capture[] = { "--host",     AGENT_URL,	 "--token-file",
					       "/dev/stdin", "--output", "-" };
	const size_t n_first = sizeof(first) / sizeof(first[0]), n_more = 4, n_capture = 6;
	char **all = calloc(n_first + n_more + n_capture + (size_t)argc + 2, sizeof(*all));
	size_t n = n_first;
	if (!all) {
		cmd_error("out of memory");
		return EXIT_FAILED;
	}
	memcpy(all, first, sizeof(first));
	memcpy(all + n, r->records ? record : read, n_more * sizeof(*all));
	n += n_more;
	memcpy(all + n, argv + 1, (size_t)(argc - 1) * sizeof(*all));
	n += (size_t)argc - 1;
	if (r->records) {
		memcpy(all + n, capture, sizeof(capture));
		n += n_capture;
	}
	all[n] = (char *)"--where";
	all[n + 1] = where;
	int status = r->records ? send_token(r->token) : EXIT_OK;
	if (!status) {
		signal(SIGXFSZ, SIG_DFL);
		execvp(all[0], all);
		status = cannot_run(errno);
	}
	free(all);
	return status;
}

/* The table of a command that may be asked; NULL: it is none. */
static const struct opt_command *find_command(const char *word, complete_table table)
{
	const struct opt_command *c;
	const char *name;
	bool may = false;
	for (size_t i = 0; asked[i]; i++)
		may |= !strcmp(word, asked[i]);
	for (size_t i = 0; may && (c = table(i, &name, NULL)); i++)
		if (!strcmp(name, word))
			return c;
	cmd_error("--pod is for commands that select samples: report, diff, blame, findings, why, "
		  "flame, export, labels, record");
	return NULL;
}

/* What stands before the command. *ret_at: the place of the command. 0 or EXIT_USAGE. */
static int parse_request(int argc, char **argv, struct pod_request *r, int *ret_at)
{
	bool attached = argv[0][strlen("--pod")] == '=';
	int at = attached ? 1 : 2;
	int rc = parse_pod(attached ? argv[0] + strlen("--pod=") : argv[1], r);
	if (rc)
		return rc;
	if (at + 1 < argc && !strcmp(argv[at], "--node")) {
		r->node = argv[at + 1];
		at += 2;
	}
	const char *agents = getenv("ASCRIBE_NAMESPACE");
	r->agents = agents && *agents ? agents : AGENT_NAMESPACE;
	*ret_at = at;
	if (r->node && !is_name(r->node, strlen(r->node)))
		cmd_error("--node %s: no name of a node", r->node);
	else if (!is_name(r->agents, strlen(r->agents)))
		cmd_error("ASCRIBE_NAMESPACE=%s: no name of a namespace", r->agents);
	else if (at >= argc)
		cmd_error("--pod %s/%s: which command?", r->namespace, r->pod);
	else
		return EXIT_OK;
	return EXIT_USAGE;
}

int pod_command(int argc, char **argv, complete_table table)
{
	struct pod_request r = { 0 };
	char node[NAME_MAX_K8S + 2], agent[1024];
	const char *where = "";
	int at, status = parse_request(argc, argv, &r, &at);
	if (status)
		return status;
	argc -= at;
	argv += at;
	const struct opt_command *c = find_command(argv[0], table);
	if (!c)
		return EXIT_USAGE;
	if (!check_command(&r, c, argc, argv, &where, &status))
		return status;
	if (!r.node && (status = find_node(&r, node, sizeof(node))))
		return status;
	if (!r.node)
		r.node = node;
	if ((status = find_agent(&r, agent, sizeof(agent))))
		return status;
	char *both = both_selectors(&r, where);
	if (!both) {
		cmd_error("out of memory");
		return EXIT_FAILED;
	}
	status = run_in_agent(&r, agent, argc, argv, both);
	free(both);
	return status;
}
