package delivery

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
)

const (
	// bigFile is from which size on a file is shown as binary: its lines help nobody.
	bigFile = 4 << 20
	// maxPatch is how much of a patch is kept. What is delivered is the commit; the patch
	// is for people.
	maxPatch = 15 << 20
	// maxNames is how much of names a command line is given.
	maxNames = 64 << 10
)

// Diff is what has changed in a worktree since its base.
type Diff struct {
	Tree      string
	Patch     []byte // a unified diff for people: no contents of binary files
	Truncated bool   // files were left out of the patch
	Files     []tipstaff.FileChange
	Added     int64
	Removed   int64

	changes []change          // the files, with what git knows of them
	agents  map[string]string // what the worktree's own index holds; see [Repo.agentsIndex]
}

// Snapshot records all changes of a worktree since its base as a tree, what nobody has
// added to git included and what git ignores not. It changes nothing there.
func (r *Repo) Snapshot(ctx context.Context, w Worktree) (Diff, error) {
	r = r.With(w)
	tree, err := r.writeTree(ctx, w)
	if err != nil {
		return Diff{}, err
	}
	var d Diff
	var agents map[string]string
	err = together(func() (err error) {
		d, err = r.Diff(ctx, w.Base, tree)
		return err
	}, func() error {
		agents = r.agentsIndex(ctx, w.Path, r.agentsFile(w))
		return nil
	})
	d.agents = agents
	markUntracked(d.Files, agents)
	return d, err
}

// change is one file with the names of its contents.
type change struct {
	tipstaff.FileChange
	path, old        string // as git has them
	before, now      string // object names
	modeBefore, mode string

	largeBefore, large *lfsPointer // of files whose content git LFS keeps; see [scratch.findLarge]
}

// Diff compares two trees, or commits. It reads neither attributes nor settings: the same
// two trees always give the same.
func (r *Repo) Diff(ctx context.Context, base, tree string) (Diff, error) {
	s, err := r.scratch("", "")
	if err != nil {
		return Diff{}, err
	}
	defer s.close()
	out, err := s.run(ctx, "", nil, "diff-tree", "-r", "-z", "-M", "-l1000", "--raw", "--numstat", base, tree)
	if err != nil {
		return Diff{}, fmt.Errorf("%s and %s cannot be compared: %w", base, tree, err)
	}
	changes, err := parseChanges(out)
	if err != nil {
		return Diff{}, err
	}
	d := Diff{Tree: tree, changes: changes}
	for _, c := range changes {
		d.Files = append(d.Files, c.FileChange)
		d.Added, d.Removed = d.Added+c.Added, d.Removed+c.Removed
	}
	if len(changes) > 0 {
		if d.Patch, d.Truncated, err = s.patch(ctx, base, tree, changes); err != nil {
			return Diff{}, err
		}
	}
	return d, nil
}

var statuses = map[byte]string{'A': tipstaff.FileAdded, 'M': tipstaff.FileModified, 'D': tipstaff.FileDeleted, 'R': tipstaff.FileRenamed, 'T': tipstaff.FileRetyped}

// parseChanges reads what `diff-tree --raw --numstat -z` prints: first a record for each
// file, then its numbers, in the same order.
func parseChanges(out []byte) ([]change, error) {
	changes, fields, err := parseRaw(out)
	if err != nil {
		return nil, err
	}
	bad := fmt.Errorf("git diff-tree printed %q", cut(out, 200))
	for i := range changes {
		if len(fields) == 0 {
			return nil, bad
		}
		numbers := strings.SplitN(fields[0], "\t", 3)
		if len(numbers) != 3 {
			return nil, bad
		}
		fields = fields[1:]
		if numbers[2] == "" { // a rename: two names follow
			if len(fields) < 2 {
				return nil, bad
			}
			fields = fields[2:]
		}
		c := &changes[i]
		if c.Binary = numbers[0] == "-"; c.Binary {
			continue
		}
		var errs [2]error
		c.Added, errs[0] = strconv.ParseInt(numbers[0], 10, 64)
		c.Removed, errs[1] = strconv.ParseInt(numbers[1], 10, 64)
		if errs[0] != nil || errs[1] != nil {
			return nil, bad
		}
	}
	return changes, nil
}

// parseRaw reads what `diff-tree --raw -z` prints, and returns what comes after it.
func parseRaw(out []byte) (changes []change, fields []string, err error) {
	fields = split(out)
	if len(fields) > 0 && !strings.HasPrefix(fields[0], ":") { // the name of the commit
		fields = fields[1:]
	}
	bad := fmt.Errorf("git diff-tree printed %q", cut(out, 200))
	for len(fields) > 0 && strings.HasPrefix(fields[0], ":") {
		info := strings.Fields(fields[0])
		if len(info) != 5 || len(fields) < 2 {
			return nil, nil, bad
		}
		c := change{path: fields[1], before: info[2], now: info[3], modeBefore: strings.TrimPrefix(info[0], ":"), mode: info[1]}
		c.Status, c.Submodule = statuses[info[4][0]], c.modeBefore == gitlink || c.mode == gitlink
		fields = fields[2:]
		if c.Status == tipstaff.FileRenamed {
			if len(fields) < 1 {
				return nil, nil, bad
			}
			c.old, c.path, fields = c.path, fields[0], fields[1:]
			c.Old = named(c.old)
		}
		c.Path = named(c.path)
		if c.Status == "" {
			return nil, nil, bad
		}
		changes = append(changes, c)
	}
	return changes, fields, nil
}

// named is a file's name as text. One that is none is quoted.
func named(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.QuoteToASCII(name)
}

// patch is the text of a comparison, of the first files only if all would be too much.
func (s *scratch) patch(ctx context.Context, base, tree string, changes []change) (patch []byte, truncated bool, err error) {
	shown, err := s.affordable(ctx, changes)
	if err != nil || len(shown) == 0 {
		return nil, len(changes) > 0, err
	}
	args := []string{"diff-tree", "-r", "-p", "-M", "-l1000", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv",
		"--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", base, tree}
	if truncated = len(shown) < len(changes); truncated {
		args = append(args, "--")
		for _, c := range shown {
			if args = append(args, c.path); c.old != "" {
				args = append(args, c.old)
			}
		}
	}
	patch, err = s.run(ctx, "", nil, args...)
	if err != nil {
		return nil, false, err
	}
	if id := bytes.IndexByte(patch, '\n'); id > 0 && !bytes.HasPrefix(patch, []byte("diff ")) {
		patch = patch[id+1:] // the name of the commit
	}
	if len(patch) > maxPatch { // many lines with little in them: no file is shown in part
		patch, truncated = patch[:bytes.LastIndex(patch[:maxPatch], []byte("\ndiff --git "))+1], true
	}
	return patch, truncated, nil
}

// affordable are the first of the files whose contents together are not too much.
func (s *scratch) affordable(ctx context.Context, changes []change) ([]change, error) {
	var wanted []string
	zero := strings.Repeat("0", s.repo.hexLen())
	for _, c := range changes {
		for _, id := range []string{c.before, c.now} {
			if id != zero && !c.Binary && !c.Submodule {
				wanted = append(wanted, id)
			}
		}
	}
	sizes, err := s.sizes(ctx, wanted)
	if err != nil {
		return nil, err
	}
	var content int64
	names := 0
	for i, c := range changes {
		content += sizes[c.before] + sizes[c.now] + int64(2*len(c.path)+2*len(c.old)) + 256
		if content <= maxPatch {
			names += len(c.path) + len(c.old) + 2
			continue
		}
		for names > maxNames {
			i--
			names -= len(changes[i].path) + len(changes[i].old) + 2
		}
		return changes[:i], nil
	}
	return changes, nil
}

// sizes are how large objects are.
func (s *scratch) sizes(ctx context.Context, ids []string) (map[string]int64, error) {
	sizes := map[string]int64{}
	if len(ids) == 0 {
		return sizes, nil
	}
	out, err := s.run(ctx, "", []byte(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check=%(objectname) %(objectsize)")
	for line := range strings.SplitSeq(string(out), "\n") {
		id, size, _ := strings.Cut(line, " ")
		sizes[id], _ = strconv.ParseInt(size, 10, 64) // what is missing has no size
	}
	return sizes, err
}

// contents are the contents of objects that are known to be small.
func (s *scratch) contents(ctx context.Context, ids []string) ([][]byte, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	out, err := s.run(ctx, "", []byte(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	all := make([][]byte, len(ids))
	for i := range ids {
		head, rest, _ := bytes.Cut(out, []byte("\n"))
		fields := strings.Fields(string(head))
		if len(fields) != 3 {
			return nil, fmt.Errorf("git cat-file printed %q", cut(head, 200))
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil || size < 0 || size >= len(rest) {
			return nil, fmt.Errorf("git cat-file printed %q", cut(head, 200))
		}
		all[i], out = rest[:size], rest[size+1:]
	}
	return all, nil
}

// markUntracked says which new files the agent has not added to git.
func markUntracked(files []tipstaff.FileChange, agents map[string]string) {
	known := map[string]bool{}
	for name := range agents {
		known[named(name)] = true
	}
	for i, f := range files {
		isNew := f.Status == tipstaff.FileAdded || f.Status == tipstaff.FileRenamed
		files[i].Untracked = isNew && !known[f.Path]
	}
}

func cut(b []byte, n int) []byte { return b[:min(n, len(b))] }
