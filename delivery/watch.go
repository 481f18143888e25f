package delivery

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/filestamp"
	"github.com/tipstaff/tipstaff/flow"
)

// An agent may write the user's repository and checkout, where they lie. What changes there
// while it works is told, and not undone: a person may have changed it.

// Fingerprint is the state of a user's repository, for [Compare].
type Fingerprint struct {
	head  string            // the branch and its commit
	refs  map[string]string // but ours
	files map[string]string // of the checkout, that have changes
	index [sha256.Size]byte // what it holds, without what it knows of files
	own   map[string]string // digests of configuration and hooks, by name
}

// Fingerprint takes the state of the user's repository.
func (r *Repo) Fingerprint(ctx context.Context) (*Fingerprint, error) {
	f := &Fingerprint{refs: map[string]string{}, own: map[string]string{}}
	err := together(
		func() error { return r.lookAtCheckout(ctx, f) },
		func() error { return r.lookAtRefs(ctx, f) },
		func() error { return r.lookAtIndex(ctx, f) },
		func() error { return r.lookAtSettings(ctx, f) },
	)
	return f, err
}

func (r *Repo) lookAtCheckout(ctx context.Context, f *Fingerprint) error {
	out, err := r.onRefs(ctx, nil, "rev-parse", "HEAD", "--symbolic-full-name", "HEAD")
	var exit *ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if err == nil {
		f.head = strings.TrimSpace(string(out))
	}
	head, _, _ := strings.Cut(f.head, "\n")
	if f.files, err = r.statusAt(ctx, head); err != nil {
		return err
	}
	for name, status := range f.files { // a file may change again
		if info, err := os.Lstat(filepath.Join(r.Checkout, filepath.FromSlash(name))); err == nil {
			f.files[name] = fmt.Sprintf("%s %d %d", status, info.Size(), info.ModTime().UnixNano())
		}
	}
	return nil
}

func (r *Repo) lookAtRefs(ctx context.Context, f *Fingerprint) error {
	out, err := r.onRefs(ctx, nil, "for-each-ref", "--format=%(refname) %(objectname) %(symref)")
	for line := range strings.SplitSeq(string(out), "\n") {
		name, value, _ := strings.Cut(line, " ")
		if name != "" && !strings.HasPrefix(name, "refs/heads/tipstaff/") && !strings.HasPrefix(name, hidden) {
			f.refs[name] = strings.TrimSpace(value)
		}
	}
	return err
}

// lookAtIndex digests what the index holds, with its flags: one of them makes git overlook
// changes of a file. The bytes of the file itself change whenever somebody looks.
func (r *Repo) lookAtIndex(ctx context.Context, f *Fingerprint) error {
	s, err := r.checkout("")
	if err != nil {
		return err
	}
	defer s.close()
	out, err := s.run(ctx, r.Checkout, nil, "ls-files", "-z", "--stage", "-v")
	f.index = sha256.Sum256(out)
	return err
}

// settings are the files of a repository that say how git behaves in it, by pattern.
var settings = []string{"config", "config.worktree", "info/attributes", "info/exclude", "info/grafts", "info/sparse-checkout",
	"objects/info/alternates", "hooks/*", "modules/*/config", "modules/*/hooks/*"}

func (r *Repo) lookAtSettings(ctx context.Context, f *Fingerprint) error {
	if path := r.ownExclude(); path != "" { // which hides files from what is recorded
		data, err := readSmall(path)
		if err != nil {
			return err
		}
		lines := slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool { return line == r.git.Private })
		f.own["info/exclude of the worktree"] = strings.TrimRight(strings.Join(lines, "\n"), "\n")
	}
	dirs := slices.Compact([]string{r.Common, r.GitDir})
	for _, dir := range dirs {
		for _, pattern := range settings {
			paths, err := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
			if err != nil {
				return err
			}
			for _, path := range paths {
				if strings.HasSuffix(path, ".sample") {
					continue
				}
				name, err := filepath.Rel(dir, path)
				if err != nil {
					return err
				}
				if f.own[name], err = digestOf(ctx, path); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// maxDigested is how large a file is at most whose content is looked at. Of a larger one the
// stamp tells whether it is another.
const maxDigested = 64 << 20

// digestOf is what a file is: its type, mode and content. It opens nothing but files.
func digestOf(ctx context.Context, path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", ignoreMissing(err)
	}
	var digest [sha256.Size]byte
	switch {
	case info.Mode().IsRegular() && info.Size() > maxDigested:
		return fmt.Sprintf("%v", filestamp.Of(info)), nil
	case info.Mode().IsRegular():
		digest, err = filestamp.Digest(ctx, path, info.Size())
	case info.Mode().Type() == fs.ModeSymlink:
		var target string
		target, err = os.Readlink(path)
		digest = sha256.Sum256([]byte(target))
	}
	return fmt.Sprintf("%v %x", info.Mode(), digest), ignoreMissing(err)
}

// ignoreMissing: what is removed while one looks is not there.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// Codes of notices about the user's repository.
const (
	CheckoutChanged   = "checkout_changed"
	RefsChanged       = "refs_changed"
	RepositoryChanged = "repository_changed"
	CannotLook        = tipstaff.BlockUnreadable // nobody knows what has changed
)

// Unlooked tells that nobody can look at the repository or the worktree.
func Unlooked(err error) tipstaff.Notice {
	return tipstaff.Notice{Code: CannotLook, Message: "the repository or the worktree cannot be looked at any more: " + err.Error()}
}

// maxDiffering is how many differences a notice names.
const maxDiffering = 50

// Difference is one thing that a notice tells of: its name, and where it can be told,
// what it was and is; "": it was not, or is no more.
type Difference struct {
	Name string `json:"name"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// Differences are the detail of a notice.
type Differences struct {
	Items []Difference `json:"items"`
	Total int          `json:"total"`
}

// Compare says what has changed from one state of the user's repository to another.
func Compare(before, after *Fingerprint) (notices []tipstaff.Notice) {
	files := differing(before.files, after.files, false)
	if before.head != after.head {
		files = append([]Difference{{"HEAD", before.headName(), after.headName()}}, files...)
	}
	if len(files) == 0 && before.index != after.index {
		files = []Difference{{Name: "index"}}
	}
	for _, n := range []struct {
		code, what string
		items      []Difference
	}{
		{CheckoutChanged, "the checkout", files},
		{RefsChanged, "refs of the repository", differing(before.refs, after.refs, true)},
		{RepositoryChanged, "the configuration or hooks of the repository", differing(before.own, after.own, false)},
	} {
		if len(n.items) == 0 {
			continue
		}
		notices = append(notices, noticed(n.code, n.what+" changed meanwhile: ", n.items))
	}
	return notices
}

// noticed is a notice of so many differences, which names the first of them.
func noticed(code, what string, items []Difference) tipstaff.Notice {
	var told []string
	for _, d := range items[:min(3, len(items))] {
		told = append(told, d.String())
	}
	if more := len(items) - len(told); more > 0 {
		told = append(told, fmt.Sprintf("%d more", more))
	}
	return tipstaff.Notice{Code: code, Message: what + strings.Join(told, ", "), Detail: flow.JSON(Differences{items[:min(maxDiffering, len(items))], len(items)})}
}

func (f *Fingerprint) headName() string { return strings.Join(strings.Fields(f.head), " ") }

func (d Difference) String() string {
	if d.Old == "" && d.New == "" {
		return d.Name
	}
	return fmt.Sprintf("%s (%s → %s)", d.Name, cmp.Or(short(d.Old), "none"), cmp.Or(short(d.New), "none"))
}

// short is an object's name as people write it.
func short(value string) string {
	id, rest, _ := strings.Cut(value, " ")
	if len(id) > 12 {
		id = id[:12]
	}
	return strings.TrimSpace(id + " " + rest)
}

// differing are the entries in which two maps differ, by name.
func differing(before, after map[string]string, values bool) (all []Difference) {
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, now := before[name], after[name]
		if old == now {
			continue
		}
		d := Difference{Name: named(name)}
		if values {
			d.Old, d.New = old, now
		}
		all = append(all, d)
	}
	return all
}
