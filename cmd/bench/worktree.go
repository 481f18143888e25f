package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff/delivery"
	"github.com/tipstaff/tipstaff/process"
)

const (
	worktreeLimit = 100 * time.Millisecond
	cleanLimit    = 1.5 // times what git takes to add a worktree
)

// measureWorktree: a worktree of a large repository, what was changed there, and its
// commit, in turns with git alone.
func measureWorktree(ctx context.Context, b *bench) ([]row, error) {
	g := process.Git()
	if g == nil {
		return nil, errors.New("there is no git on the PATH")
	}
	home := filepath.Join(b.dir, "worktrees")
	repo := repository{dir: filepath.Join(home, "project"), home: home}
	if err := repo.fill(ctx, b.files); err != nil {
		return nil, err
	}
	g.Env = func(name string) string {
		if name == "HOME" {
			return home
		}
		return os.Getenv(name)
	}
	opened, err := delivery.Open(ctx, g, repo.dir)
	if err != nil {
		return nil, err
	}
	var ours, alone []float64
	if _, err := repo.byGit(ctx, "first"); err != nil { // the repository is in memory then
		return nil, err
	}
	for i := range turns(b.rounds) {
		bare, err := repo.byGit(ctx, fmt.Sprintf("bare-%d", i))
		if err != nil {
			return nil, err
		}
		all, err := repo.byDelivery(ctx, opened, fmt.Sprintf("ours-%d", i))
		if err != nil {
			return nil, err
		}
		ours, alone = append(ours, all.Seconds()), append(alone, bare.Seconds())
	}
	clean, added, err := repo.clean(ctx, opened, b.rounds)
	if err != nil {
		return nil, err
	}
	all, bare := seconds(median(ours)), seconds(median(alone))
	return []row{{figure: "worktree, diff and commit in a repository of " + count(float64(b.files)) + " files", value: all.Seconds(), measured: milliseconds(all),
		beside: fmt.Sprintf("git alone %s: %+d ms; medians of %d", milliseconds(bare), (all - bare).Milliseconds(), len(ours)),
		bound:  goal("+"+milliseconds(worktreeLimit), all-bare < worktreeLimit)},
		{figure: "a clean checkout of " + count(float64(b.files)) + " files for the checks of a delivery", value: clean.Seconds(), measured: milliseconds(clean),
			beside: fmt.Sprintf("git worktree add %s: %.2f ×; medians of %d", milliseconds(added), clean.Seconds()/added.Seconds(), len(ours)),
			bound:  goal(fmt.Sprintf("%g ×", cleanLimit), clean.Seconds() < cleanLimit*added.Seconds())}}, nil
}

// clean is how long a clean checkout takes, and a worktree that git makes, in turns.
func (r repository) clean(ctx context.Context, repo *delivery.Repo, rounds int) (ours, alone time.Duration, err error) {
	var of [2][]float64
	base, err := repo.Resolve(ctx, "HEAD")
	if err != nil {
		return 0, 0, err
	}
	for i := range turns(rounds) {
		for side, make := range []func(path string) error{
			func(path string) error { return repo.CheckOut(ctx, path, base+"^{tree}", base) },
			func(path string) error { return r.git(ctx, r.dir, "worktree", "add", "-q", "--detach", path) },
		} {
			path, start := filepath.Join(r.home, fmt.Sprintf("clean-%d-%d", i, side)), time.Now()
			if err := make(path); err != nil {
				return 0, 0, err
			}
			of[side] = append(of[side], time.Since(start).Seconds())
			if err := os.RemoveAll(path); err != nil {
				return 0, 0, err
			}
		}
	}
	return seconds(median(of[0])), seconds(median(of[1])), nil
}

// repository is a user's, with a home of its own.
type repository struct{ dir, home string }

// git runs git as a person would.
func (r repository) git(ctx context.Context, dir string, args ...string) error {
	c := osexec.CommandContext(ctx, "git", args...)
	c.Dir, c.Env, c.Stderr = dir, []string{"HOME=" + r.home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1"}, &bytes.Buffer{}
	_, err := c.Output()
	return explain(c, err)
}

func (r repository) fill(ctx context.Context, files int) error {
	for i := range files {
		if err := writeFile(filepath.Join(r.dir, fileOf(i)), fmt.Sprintf("file %d\nwith a second line\n", i)); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "Ada"}, {"config", "user.email", "ada@example.org"}, {"add", "-A"}, {"commit", "-qm", "all"}} {
		if err := r.git(ctx, r.dir, args...); err != nil {
			return err
		}
	}
	return nil
}

func fileOf(i int) string { return fmt.Sprintf("d%02d/e%d/f%d.txt", i/100, i/10%10, i) }

func writeFile(path, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
}

const changedFiles = 41

// rework edits, adds and removes some files.
func rework(dir string) error {
	var errs []error
	for i := range changedFiles / 2 {
		errs = append(errs, writeFile(filepath.Join(dir, fileOf(i)), "edited\n"), writeFile(filepath.Join(dir, "new", fmt.Sprint(i)), "new\n"))
	}
	return errors.Join(append(errs, os.Remove(filepath.Join(dir, fileOf(50))))...)
}

// byGit is what a person would do.
func (r repository) byGit(ctx context.Context, name string) (took time.Duration, err error) {
	path := filepath.Join(r.home, name)
	return inTwo(path, func() error {
		return r.git(ctx, r.dir, "worktree", "add", "-q", "-b", name, path)
	}, func() error {
		for _, args := range [][]string{{"add", "-A"}, {"commit", "-q", "-m", "x"}, {"diff-tree", "-r", "-p", "-M", "HEAD~1", "HEAD"}, {"diff-tree", "-r", "-M", "--raw", "--numstat", "HEAD~1", "HEAD"}} {
			if err := r.git(ctx, path, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// byDelivery is what a run does.
func (r repository) byDelivery(ctx context.Context, repo *delivery.Repo, name string) (took time.Duration, err error) {
	path := filepath.Join(r.home, name)
	var w delivery.Worktree
	return inTwo(path, func() error {
		base, err := repo.Resolve(ctx, "HEAD")
		if err == nil {
			w, err = repo.AddWorktree(ctx, path, base)
		}
		repo = repo.With(w)
		return err
	}, func() error {
		d, err := repo.Snapshot(ctx, w)
		if err != nil {
			return err
		}
		if len(d.Files) != changedFiles {
			return fmt.Errorf("%d files have changed, not %d", len(d.Files), changedFiles)
		}
		commit, err := repo.Commit(ctx, delivery.Commit{Base: w.Base, Tree: d.Tree, Title: "x", At: time.Now()})
		if err != nil {
			return err
		}
		return repo.Publish(ctx, delivery.Branch(name, "x"), commit)
	})
}

// inTwo is how long it takes to make a worktree, and to take what was changed there.
func inTwo(path string, begin, end func() error) (took time.Duration, err error) {
	start := time.Now()
	if err := begin(); err != nil {
		return 0, err
	}
	took = time.Since(start)
	if err := rework(path); err != nil {
		return 0, err
	}
	start = time.Now()
	err = end()
	return took + time.Since(start), err
}
