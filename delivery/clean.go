package delivery

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/filestamp"
	"github.com/tipstaff/tipstaff/flow"
)

// Checks run in a clean checkout of the tree that would be delivered: what only lies in the
// worktree makes none of them pass, and what one leaves matters to none after it.

// cleanCheckout is one as this process has made it. One that another has made is made anew:
// nobody knows whether it was finished.
type cleanCheckout struct {
	dir   string
	key   string // of the tree, and what it was given
	ports []int
	setup []tipstaff.Receipt // of the commands that have made it ready; the last may have failed
	tail  string             // the last lines of the one that failed
	files map[string]cleanFile
}

// cleanFile is a file as it was when the checkout was made. Where a change would leave no
// trace in the stamp its content counts.
type cleanFile struct {
	stamp  filestamp.Stamp
	digest [sha256.Size]byte
}

// clean is where the clean checkout of a run lies. A fork works in the worktree of its source.
func (w Worktree) clean(run string) string { return w.Path + "." + run + ".clean" }

// cleanFor is a clean checkout of a tree, ready for a check. got takes the receipts of what has
// run if it was made now.
func (e Env) cleanFor(ctx context.Context, a flow.Attempt, r *Repo, in checkInput, got *checked) (c *cleanCheckout, keep []string, err error) {
	c = &cleanCheckout{dir: in.Worktree.clean(a.Run), key: in.Tree + " " + string(flow.JSON(in.Prepare))}
	if had, ok := e.Git.cleans.Load(c.dir); ok {
		if had := had.(*cleanCheckout); had.key == c.key && had.restore(ctx) {
			return had, nil, nil
		}
	}
	if got.Teardown, keep, err = e.dropClean(ctx, a, in.Place, in.Worktree, in.Prepare.Teardown); err != nil {
		return nil, nil, err
	}
	if err := r.CheckOut(ctx, c.dir, in.Tree, in.Worktree.Base); err != nil {
		return nil, keep, notReady(ctx, err)
	}
	g, err := e.give(ctx, r, c.dir, in.Tree, in.Prepare)
	if c.ports = g.Ports; err != nil {
		return nil, keep, notReady(ctx, err)
	}
	alone := *r
	alone.worktree = "" // what its repository ignores is not ignored here
	if err := alone.exclude(ctx, c.dir, filepath.Join(c.dir, ".git"), g.Placed); err != nil {
		return nil, keep, notReady(ctx, err)
	}
	for i, command := range in.Prepare.Setup {
		receipt, output, kept, err := e.run(ctx, a, Command{Argv: command.Run, Dir: placeWithin(in.Place, c.dir), Timeout: command.Limit(), Env: portsEnv(c.ports)})
		if err != nil {
			return nil, nil, err
		}
		receipt.Name, receipt.Required, receipt.Tree, receipt.In = stepName(tipstaff.PhaseSetup, i), true, in.Tree, tipstaff.InClean
		c.setup, keep = append(c.setup, receipt), append(keep, kept...)
		if !receipt.Passed(in.Tree) {
			c.tail = lastLines(output)
			break
		}
	}
	if err := c.look(ctx); err != nil {
		return nil, nil, err
	}
	e.Git.cleans.Store(c.dir, c)
	got.Setup = c.setup
	return c, keep, nil
}

// failed is why no check can run there; nil: it is ready.
func (c *cleanCheckout) failed() *flow.Error {
	if n := len(c.setup); n > 0 && !c.setup[n-1].Passed(c.setup[n-1].Tree) {
		return setupFailure(c.setup[n-1], c.tail)
	}
	return nil
}

// placeWithin is the project's folder in a directory that holds files of the repository.
func placeWithin(p Place, dir string) string {
	return filepath.Join(dir, filepath.FromSlash(p.Prefix))
}

// cleanIndex is the index of a clean checkout, beside it. Whoever asks git in the checkout
// writes the one that lies in it.
func cleanIndex(dir string) string { return dir + ".index" }

// CheckOut makes a directory with the files of a tree, and a repository of its own around
// them, for builds that ask git: its commit has the tree, and base as its parent.
func (r *Repo) CheckOut(ctx context.Context, dir, tree, base string) error {
	index := cleanIndex(dir)
	if err := errors.Join(removeAll(dir), removeAll(index)); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s, err := r.scratch(dir, index)
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := s.run(ctx, dir, nil, "read-tree", "--reset", "-u", "--no-recurse-submodules", tree); err != nil {
		return fmt.Errorf("the files of %s cannot be written to %s: %w", tree, dir, err)
	}
	return r.surround(ctx, dir, index, tree, base)
}

// surround makes the repository of a clean checkout. It shares objects, and nothing else.
func (r *Repo) surround(ctx context.Context, dir, index, tree, base string) error {
	commit, err := r.Commit(ctx, Commit{Base: base, Tree: tree, Title: "What is to be delivered", At: time.Now()})
	if err != nil {
		return err
	}
	tags, err := r.onRefs(ctx, nil, "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags")
	if err != nil {
		return err
	}
	git := filepath.Join(dir, ".git")
	for _, sub := range []string{"refs", "info", "objects/info", "objects/pack"} {
		if err := os.MkdirAll(filepath.Join(git, sub), 0o700); err != nil {
			return err
		}
	}
	files := map[string][]byte{
		"HEAD":                    []byte(commit + "\n"),
		"config":                  r.config([]setting{{"core.bare", "false"}, {"gc.auto", "0"}}),
		"objects/info/alternates": []byte(r.alternates()),
		"packed-refs":             []byte("# pack-refs with: \n" + string(tags)),
	}
	shallow, err := readSmall(filepath.Join(r.Common, "shallow"))
	if err != nil {
		return err
	}
	if len(shallow) > 0 {
		files["shallow"] = shallow
	}
	if files["info/exclude"], err = readSmall(filepath.Join(r.Common, "info", "exclude")); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(git, name), text, 0o600); err != nil {
			return err
		}
	}
	return copyIndex(index, filepath.Join(git, "index"))
}

// each calls f for what lies in the checkout, but for the index: whoever asks git writes there.
func (c *cleanCheckout) each(f func(name string, info fs.FileInfo) error) error {
	return filepath.WalkDir(c.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == filepath.Join(c.dir, ".git", "index") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return f(name, info)
	})
}

// look takes down what lies in the checkout.
func (c *cleanCheckout) look(ctx context.Context) error {
	c.files = map[string]cleanFile{}
	return c.each(func(name string, info fs.FileInfo) (err error) {
		f := cleanFile{stamp: cleanStamp(info)}
		if info.Mode().IsRegular() && !f.stamp.Settled() {
			f.digest, err = filestamp.Digest(ctx, name, info.Size())
		}
		c.files[name] = f
		return err
	})
}

// cleanStamp is the stamp of what lies in a checkout. A folder has another time whenever
// something is made in it.
func cleanStamp(info fs.FileInfo) filestamp.Stamp {
	if info.IsDir() {
		return filestamp.Stamp{Mode: info.Mode()}
	}
	return filestamp.Of(info)
}

// restore takes away what has been added since the checkout was made, without reading it. It
// reports false if something else has changed: then it has to be made anew.
func (c *cleanCheckout) restore(ctx context.Context) bool {
	kept, added := 0, []string{}
	err := c.each(func(name string, info fs.FileInfo) error {
		was, there := c.files[name]
		switch {
		case !there:
			if added = append(added, name); info.IsDir() {
				return fs.SkipDir
			}
			return nil
		case cleanStamp(info) != was.stamp:
			return errChanged
		case was.digest != [sha256.Size]byte{}:
			if digest, err := filestamp.Digest(ctx, name, info.Size()); err != nil || digest != was.digest {
				return cmp.Or(err, errChanged)
			}
		}
		kept++
		return nil
	})
	if err != nil || kept < len(c.files) {
		return false
	}
	for _, name := range added {
		if removeAll(name) != nil {
			return false
		}
	}
	return copyIndex(cleanIndex(c.dir), filepath.Join(c.dir, ".git", "index")) == nil
}

var errChanged = errors.New("it has changed")

// dropClean takes the clean checkout of a run away, if there is one.
func (e Env) dropClean(ctx context.Context, a flow.Attempt, p Place, w Worktree, teardown []document.Command) (ran []tipstaff.Receipt, keep []string, err error) {
	dir := w.clean(a.Run)
	had, _ := e.Git.cleans.LoadAndDelete(dir)
	if _, err := os.Lstat(dir); err != nil {
		return nil, nil, ignoreMissing(err)
	}
	var ports []int
	if had, ok := had.(*cleanCheckout); ok {
		ports = had.ports
	} else if ports, err = portsOf(dir); err != nil {
		return nil, nil, err
	}
	if ran, keep, err = e.tearDown(ctx, a, placeWithin(p, dir), ports, teardown); err != nil {
		return nil, nil, err
	}
	for i := range ran {
		ran[i].In = tipstaff.InClean
	}
	return ran, keep, e.Git.RemoveClean(dir)
}

// RemoveClean removes a clean checkout, and what is known of it.
func (g *Git) RemoveClean(dir string) error {
	g.cleans.Delete(dir)
	return errors.Join(removeAll(dir), removeAll(portsFile(dir)), removeAll(cleanIndex(dir)))
}

// CleanCheckout is the clean checkout of a run that nobody has taken away yet.
type CleanCheckout struct{ Run, Path string }

// CleanCheckouts are those that lie among worktrees.
func CleanCheckouts(worktrees string) (all []CleanCheckout) {
	entries, _ := os.ReadDir(worktrees) // there need not be any
	for _, e := range entries {
		if parts := strings.Split(e.Name(), "."); e.IsDir() && len(parts) == 3 && parts[2] == "clean" {
			all = append(all, CleanCheckout{parts[1], filepath.Join(worktrees, e.Name())})
		}
	}
	return all
}

// Ports are those that it was given.
func (c CleanCheckout) Ports() ([]int, error) { return portsOf(c.Path) }

// lastLines are the end of what a program has printed, as much as an error can tell.
func lastLines(output []byte) string {
	const most, lines = 2000, 20
	text := strings.TrimSpace(strings.ToValidUTF8(string(output), "�"))
	all := strings.Split(text, "\n")
	text = strings.Join(all[max(0, len(all)-lines):], "\n")
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}
