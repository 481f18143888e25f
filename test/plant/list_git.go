package main

const (
	ownRepository  = "The files of a run are a git repository of their own"
	putBack        = "What is not as it was made is put back and told"
	namesAgain     = "git names again what it reads"
	callLimit      = "A call may take 2 minutes"
	waitsForPipe   = "Where git would wait for a pipe"
	noHooks        = "no hooks, neither of a folder nor of the configuration"
	guardedWrites  = "One function lets writing begin to your repository or checkout"
	sameAuthor     = "Author and committer are what your configuration said when the run was made"
	leadsElsewhere = "A `core.worktree` that leads elsewhere is refused"
	warnsAnyway    = "also where nothing was changed in the worktree"
	olderGoOn      = "Worktrees of runs from before are worktrees of your repository"
	baseIsKept     = "It keeps the base from being cleaned up"
)

// Bugs against the repository of a run's own, and what starts git.
var gitBugs = []bug{
	{
		id: "objects-in-the-users-repository", page: "delivery.md", says: ownRepository,
		slip:   "records into the objects of the user's repository",
		file:   "delivery/repo.go",
		old:    "		with.objects = w.objects()\n",
		new:    "		with.objects = \"\"\n",
		suites: []suite{tests("delivery", "TestNothingThatTheRunsRepositoryNamesIsRun|TestWhatIsRecordedCannotBeExchanged|TestCommitIsThatOfTheUser")},
	},
	{
		id: "ignored-by-a-pipe", page: "delivery.md", says: putBack,
		slip:   "leaves whatever a worker has put where it says what is ignored",
		file:   "delivery/own.go",
		old:    "err != nil || exists(r.ownExclude()) && !regular(r.ownExclude()) {",
		new:    "err == nil && exists(r.ownExclude()) && !regular(r.ownExclude()) {",
		suites: []suite{tests("delivery", "TestNothingThatTheRunsRepositoryNamesIsRun")},
	},
	{
		id: "programs-of-remotes", page: "delivery.md", says: "what of `remote.*` names neither a program nor a proxy may change",
		slip:   "takes all settings of remotes for everyday ones",
		file:   "delivery/guard.go",
		old:    "rule >= guardRemotes && slices.Contains(remoteStarters, name) ||",
		new:    "rule >= guardRemotes && slices.Contains(remoteStarters, key) ||",
		suites: []suite{tests("delivery", "TestWritingWaitsForTheConfiguration")},
	},
	{
		id: "hooks-of-the-run-stay", page: "delivery.md", says: putBack,
		slip:   "puts back the configuration and overlooks hooks",
		file:   "delivery/own.go",
		old:    "\"objects/info/http-alternates\", \"hooks\"}",
		new:    "\"objects/info/http-alternates\"}",
		suites: []suite{tests("delivery", "TestNothingThatTheRunsRepositoryNamesIsRun")},
	},
	{
		id: "configuration-of-the-run-stays", page: "delivery.md", says: putBack,
		slip:   "compares the configuration and leaves it as it is",
		file:   "delivery/own.go",
		old:    "		changed = append(changed, items...)\n		if err := put(own, name, content); err != nil {",
		new:    "		changed = append(changed, items...)\n		if err := put(own, name+\".ours\", content); err != nil {",
		suites: []suite{tests("delivery", "TestNothingThatTheRunsRepositoryNamesIsRun")},
	},
	{
		id: "exchanged-objects", page: "delivery.md", says: namesAgain,
		slip:   "does not look whether all that was recorded has come",
		file:   "delivery/commit.go",
		old:    "	if err == nil && len(missing) > 0 {",
		new:    "	if err == nil && len(missing) > len(names) {",
		suites: []suite{tests("delivery", "TestWhatIsRecordedCannotBeExchanged")},
	},
	{
		id: "git-without-a-limit", page: "delivery.md", says: callLimit,
		slip:   "forgets the limit",
		file:   "delivery/git.go",
		old:    "	limit := cmp.Or(g.Limit, DefaultLimit)\n",
		new:    "	limit := max(g.Limit, DefaultLimit)\n",
		suites: []suite{tests("delivery", "TestGitHasALimit")},
	},
	{
		id: "waits-for-pipes", page: "delivery.md", says: waitsForPipe,
		slip:   "lets git wait until the limit ends it",
		file:   "delivery/git.go",
		old:    "		if path := findPipe(limited, c.reads, c.files); path != \"\" {",
		new:    "		if path := findPipe(limited, nil, \"\"); path != \"\" {",
		suites: []suite{tests("delivery", "TestNobodyWaitsForPipes|TestNothingThatTheRunsRepositoryNamesIsRun")},
	},
	{
		id: "configured-hooks-run", page: "delivery.md", says: noHooks,
		slip:   "moves refs with the repository's configuration",
		file:   "delivery/scratch.go",
		old:    "	s, err := r.bareScratch(\"\", append(r.refStorage(), r.upstream...))\n",
		new:    "	s, err := r.bareScratch(\"\", append(r.refStorage(), setting{\"include.path\", filepath.Join(r.Common, \"config\")}, setting{\"core.hookspath\", filepath.Join(r.Common, \"hooks\")}))\n",
		suites: []suite{tests("delivery", "TestNothingThatTheRepositoryNamesIsRun")},
	},
	{
		id: "a-proxy-in-between", page: "delivery.md", says: guardedWrites,
		slip:   "takes settings that name a server for those of everyday work",
		file:   "delivery/guard.go",
		old:    "\"proxy\", \"server\", ",
		new:    "",
		suites: []suite{tests("delivery", "TestGuardedSettings")},
	},
	{
		id: "a-certificate-of-somebody-else", page: "delivery.md", says: guardedWrites,
		slip:   "knows the settings of http.* by their names",
		file:   "delivery/guard.go",
		old:    "		return rule >= guardClasses && !slices.Contains(harmless[section], name) || slices.Contains(starters, name)",
		new:    "		return rule >= guardClasses && slices.Contains([]string{\"proxy\", \"url\", \"path\"}, name) || slices.Contains(starters, name)",
		suites: []suite{tests("delivery", "TestGuardedSettings")},
	},
	{
		id: "held-to-a-rule-of-later", page: "delivery.md", says: "A run is held to the rule of its start",
		slip:   "compares with settings that were not noted when the run was made",
		file:   "delivery/guard.go",
		old:    "guardOf(guardOfRun(r.Own), all), true)",
		new:    "guardOf(guardNow, all), true)",
		suites: []suite{tests("delivery", "TestWritingWaitsForTheConfiguration")},
	},
	{
		id: "writes-whatever-is-configured", page: "delivery.md", says: guardedWrites,
		slip:   "looks at the configuration and writes all the same",
		file:   "delivery/guard.go",
		old:    "	if len(changed) > 0 {\n		return &MeddledError{changed}\n	}\n",
		new:    "	_ = changed\n",
		suites: []suite{tests("delivery", "TestWritingWaitsForTheConfiguration")},
	},
	{
		id: "includes-unseen", page: "delivery.md", says: "includes and what the included files say",
		slip:   "reads the configuration and not what it includes",
		file:   "delivery/guard.go",
		old:    "				todo = append(todo, r.git.included(file, s.value))\n",
		new:    "",
		suites: []suite{tests("delivery", "TestIncludedConfigurationIsGuarded|TestNobodyWaitsForPipes")},
	},
	{
		id: "author-of-the-worker", page: "delivery.md", says: sameAuthor,
		slip:   "asks the configuration for the author when it commits",
		file:   "delivery/repo.go",
		old:    "	r.name, r.email = p.Own.Name, p.Own.Email\n",
		new:    "	if err := r.configure(ctx); err != nil {\n		return nil, err\n	}\n",
		suites: []suite{tests("delivery", "TestAuthorIsTheUserOfTheStart")},
	},
	{
		id: "core-worktree-followed", page: "delivery.md", says: leadsElsewhere,
		slip:   "takes what git says for the checkout",
		file:   "delivery/repo.go",
		old:    "	if r.Checkout != top {",
		new:    "	if r.Checkout == \"\" {",
		suites: []suite{tests("delivery", "TestCoreWorktreeIsNotFollowed")},
	},
	{
		id: "silent-without-a-difference", page: "delivery.md", says: warnsAnyway,
		slip:   "tells notices at the gate alone",
		file:   "delivery/deliver.go",
		old:    "		recorded.Notices = recorded.Notices[:min(len(recorded.Notices), maxListed)]\n",
		new:    "		recorded.Notices = nil\n",
		suites: []suite{tests("delivery", "TestNoticesWithoutADifference")},
	},
	{
		id: "older-worktrees-forgotten", page: "delivery.md", says: olderGoOn,
		slip:   "looks for the index of every worktree where those of today have it",
		file:   "delivery/worktree.go",
		old:    "	if r.Own != nil {\n		return w.gitDir()\n	}\n",
		new:    "	if r.Own != nil || w.Base != \"\" {\n		return w.gitDir()\n	}\n",
		suites: []suite{tests("delivery", "TestOlderWorktreesGoOn")},
	},
	{
		id: "base-cleaned-up", page: "delivery.md", says: baseIsKept,
		slip:   "lets the base go that no branch of the user's has any more",
		file:   "delivery/own.go",
		old:    "	if err := r.replaceRef(ctx, w.baseRef(), w.Base); err != nil {\n		return err\n	}\n",
		new:    "",
		suites: []suite{tests("delivery", "TestTheBaseIsKept")},
	},
	{
		id: "branch-without-a-commit", page: "delivery.md", says: "on a branch without a commit all files of the index count as changed",
		slip:   "compares a checkout whose branch has no commit with one that is nowhere",
		file:   "delivery/scratch.go",
		old:    "s.setHead(\"ref: refs/heads/none\")",
		new:    "s.setHead(strings.Repeat(\"0\", r.hexLen()))",
		suites: []suite{tests("delivery", "TestActionsInEachState")},
	},
	{
		id: "folders-nobody-may-enter", page: "delivery.md", says: "and the right to read and write any of it",
		slip:   "puts back what it can read, and leaves folders shut that a worker has shut",
		file:   "delivery/own.go",
		old:    "			case d.IsDir():\n				needed = 0o700\n",
		new:    "			case d.IsDir():\n				return nil\n",
		suites: []suite{tests("delivery", "TestNothingThatTheRunsRepositoryNamesIsRun")},
	},
	{
		id: "lost-records-end-a-run", page: "delivery.md", says: "What git cannot do blocks",
		slip:   "takes what git cannot do for the end of the run",
		file:   "delivery/activity.go",
		old:    "	case ctx.Err() != nil, errors.As(err, &known), errors.Is(err, flow.ErrParked):\n		return delivered{}, err\n	case errors.Is(err, ErrBranchExists)",
		new:    "	case ctx.Err() != nil || r != nil, errors.As(err, &known), errors.Is(err, flow.ErrParked):\n		return delivered{}, err\n	case errors.Is(err, ErrBranchExists)",
		suites: []suite{tests("delivery", "TestPiecesOfAWorktree")},
	},
	{
		id: "known-too-late", page: "delivery.md", says: "also where it became known when the gate was open",
		slip:   "looks for credentials when the difference is recorded, and not when it is handed over",
		file:   "delivery/activity.go",
		old:    "	if e.Redact == nil {\n		return nil, nil\n	}\n	d, err",
		new:    "	if e.Redact != nil {\n		return nil, nil\n	}\n	d, err",
		suites: []suite{tests("delivery", "TestACredentialThatBecameKnown")},
	},
	{
		id: "left-beside-a-worktree", page: "delivery.md", says: "Otherwise it stays for seven days",
		slip:   "tidies worktrees, and not what is left of those that are gone",
		file:   "runner/worktrees.go",
		old:    "		if err != nil || seen[name] || r.Now()",
		new:    "		if err != nil || seen[name] || name != e.Name() || r.Now()",
		suites: []suite{tests("runner", "TestWorktreesAreTidied")},
	},
}
