// Package delivery gives a run a git worktree of its own, and hands over what was
// changed there: as a commit on a branch of its own or as a patch in the checkout, and
// only when a person has decided so.
//
// An agent can write the repository: its configuration, hooks, attributes, and nested
// repositories. So nothing here trusts them. What looks at files or makes objects runs in
// a scratch git directory with a configuration of ours, and shares with the repository
// its objects alone; see [Repo]. What must use the repository itself (its refs and its
// list of worktrees) runs commands that convert and compare no file. The one function
// that moves refs refuses those of the user.
//
// Start at [Open], then [Repo.AddWorktree], [Repo.Snapshot], [Repo.Commit] and
// [Repo.Apply]. Processes are started by whoever fills [Git].
package delivery
