// Package delivery gives a run a worktree with a git repository of its own, and hands over
// what was changed there: as a commit on a branch of its own or as a patch in the checkout,
// and only when a person has decided so.
//
// An agent can write any repository that lies on the machine: configuration, hooks,
// attributes, and what it plants within its files. So nothing here trusts them. Every
// command runs in a scratch git directory with a configuration of ours: one that looks at
// files or makes objects shares objects alone with the repository, one that reads or moves
// refs shares its refs; see [Repo]. Only finding a repository, and its settings, reads its
// configuration, after a look that nothing there makes git wait. What is recorded of a run
// lies in a directory of objects beside its worktree until it is published.
//
// One function starts git. One moves refs, and refuses those of the user. One lets writing
// begin to a repository or checkout of the user's, and does so only where the settings that
// start or redirect something are those that the run began with.
//
// Start at [Open], then [Repo.AddWorktree], [Repo.With], [Repo.Snapshot], [Repo.Commit],
// [Repo.Publish] and [Repo.Apply]. Processes are started by whoever fills [Git].
package delivery
