package delivery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Commit is a commit to be built. Equal ones have the same name.
type Commit struct {
	Base     string // its parent
	Tree     string
	Title    string
	Trailers []Trailer
	At       time.Time
}

// Trailer is a line at the end of a commit's message.
type Trailer struct{ Name, Value string }

// Commit makes a commit in the name of the user. No ref names it yet: see [Repo.Keep].
func (r *Repo) Commit(ctx context.Context, c Commit) (string, error) {
	s, err := r.scratch("", "")
	if err != nil {
		return "", err
	}
	defer s.close()
	date := fmt.Sprintf("@%d +0000", c.At.Unix())
	s.env = append(s.env, "GIT_AUTHOR_NAME="+r.name, "GIT_AUTHOR_EMAIL="+r.email, "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME="+r.name, "GIT_COMMITTER_EMAIL="+r.email, "GIT_COMMITTER_DATE="+date)
	message := oneLine(c.Title) + "\n"
	for i, t := range c.Trailers {
		if i == 0 {
			message += "\n"
		}
		message += t.Name + ": " + oneLine(t.Value) + "\n"
	}
	out, err := s.run(ctx, "", []byte(message), "commit-tree", c.Tree, "-p", c.Base)
	if err != nil {
		return "", fmt.Errorf("the commit cannot be made: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// oneLine is a text without line breaks, which would make it a message of its own.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f || c == ' ' }), " ")
}

// Keep has a hidden ref name a commit, so that git does not remove it. Nothing is removed
// where what is recorded of a run is kept by itself.
func (r *Repo) Keep(ctx context.Context, run string, n int, commit string) error {
	if r.objects != "" {
		return nil
	}
	return r.replaceRef(ctx, hidden+run+"/"+strconv.Itoa(n), commit)
}

// ErrBranchExists is a branch that is there already, and elsewhere.
var ErrBranchExists = errors.New("the branch exists")

// Publish makes the branch of a delivery, and puts the commit into the user's repository.
// A branch that is at the commit already is left as it is; one that is elsewhere is never
// moved. If somebody has meddled with the repository nothing is changed.
func (r *Repo) Publish(ctx context.Context, branch, commit string) error {
	if !strings.HasPrefix(branch, DeliverBranches) {
		return fmt.Errorf("%q is not a branch of a delivery", branch)
	}
	if !r.isID(commit) { // of a gate that had none to show
		return fmt.Errorf("the gate had no commit to show, but %q: nothing was published", commit)
	}
	switch now, err := r.refValue(ctx, branch); {
	case err != nil:
		return err
	case now == commit:
		return nil
	case now != "":
		return fmt.Errorf("%w: %s", ErrBranchExists, branch)
	}
	return r.write(ctx, func() error {
		if err := r.bring(ctx, commit); err != nil {
			return err
		}
		err := r.setRef(ctx, branch, commit, absent)
		if errors.Is(err, errRefHeld) {
			return fmt.Errorf("%w: %s", ErrBranchExists, branch)
		}
		return err
	})
}

// Lost reports whether what was recorded of a run is gone, or cannot be read: a commit or tree,
// or anything that its base has not.
func (r *Repo) Lost(ctx context.Context, base, commit string) (bool, error) {
	s, err := r.scratch("", "")
	if err != nil {
		return false, err
	}
	defer s.close()
	var missing []string
	names, err := s.newObjects(ctx, base, commit)
	if err == nil {
		missing, err = s.missing(ctx, names)
	}
	var exit *ExitError
	if errors.As(err, &exit) {
		return true, nil
	}
	return len(missing) > 0, err
}

// bring puts a commit, and what it has that its parent has not, into the user's repository.
// git names there what it reads, so nothing comes in under a name that is not its own.
func (r *Repo) bring(ctx context.Context, commit string) error {
	if r.objects == "" {
		return nil
	}
	from, err := r.scratch("", "")
	if err != nil {
		return err
	}
	defer from.close()
	names, err := from.newObjects(ctx, commit+"^", commit)
	if err != nil {
		return err
	}
	users := *r
	users.objects = ""
	to, err := users.scratch("", "")
	if err != nil {
		return err
	}
	defer to.close()
	if err := from.packInto(ctx, to, names); err != nil {
		return fmt.Errorf("what was recorded of the run cannot be put into the repository at %s: %w", r.Common, err)
	}
	missing, err := to.missing(ctx, names)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("what was recorded of the run is no longer what it was: there is no object %s", missing[0])
	}
	if err != nil {
		return err
	}
	return r.bringContents(ctx, to, names)
}

// packInto has git copy objects into another place as a pack, of whatever size they are. It is
// written in a folder of its own there, and git reads it to name what is in it. What an attempt
// has left that was broken off git removes when it cleans up: it knows the name of the folder.
func (s *scratch) packInto(ctx context.Context, to *scratch, names []string) (err error) {
	begun, err := os.MkdirTemp(to.objects, "tmp_objdir-tipstaff-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeAll(begun)) }()
	at := *s
	at.objects, at.shared = begun, append([]string{s.objects}, s.shared...)
	for _, dir := range []string{filepath.Join(begun, "pack"), filepath.Join(to.objects, "pack")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	out, err := at.run(ctx, "", []byte(strings.Join(names, "\n")+"\n"), "pack-objects", "--quiet", "--window=0", filepath.Join(begun, "pack", "pack"))
	if err != nil {
		return err
	}
	name := "pack-" + strings.TrimSpace(string(out))
	pack, index := filepath.Join(begun, "pack", name+".pack"), filepath.Join(begun, name+".idx")
	if _, err := to.run(ctx, "", nil, "index-pack", "-o", index, pack); err != nil {
		return err
	}
	final := filepath.Join(to.objects, "pack", name)
	return errors.Join(os.Chmod(index, 0o444), os.Rename(pack, final+".pack"), os.Rename(index, final+".idx"))
}

// newObjects are the commit, or tree, and the trees and files that it has and its base has not.
func (s *scratch) newObjects(ctx context.Context, base, commit string) ([]string, error) {
	tree, err := s.run(ctx, "", nil, "rev-parse", "--verify", commit+"^{tree}")
	if err != nil {
		return nil, err
	}
	out, err := s.run(ctx, "", nil, "diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", base, commit)
	if err != nil {
		return nil, err
	}
	names := []string{commit, strings.TrimSpace(string(tree))}
	fields := split(out)
	for i := 0; i+1 < len(fields); i += 2 {
		if info := strings.Fields(fields[i]); len(info) == 5 && info[4] != "D" && info[1] != gitlink {
			names = append(names, info[3])
		}
	}
	return names, nil
}

// missing are those of some objects that are not there.
func (s *scratch) missing(ctx context.Context, names []string) (missing []string, err error) {
	out, err := s.run(ctx, "", []byte(strings.Join(names, "\n")+"\n"), "cat-file", "--batch-check=%(objectname) %(objecttype)") // its type is read
	for line := range strings.SplitSeq(string(out), "\n") {
		if name, gone := strings.CutSuffix(line, " missing"); gone {
			missing = append(missing, name)
		}
	}
	return missing, err
}

// BranchTaken reports whether a branch exists that is not at this commit.
func (r *Repo) BranchTaken(ctx context.Context, branch, commit string) (bool, error) {
	now, err := r.refValue(ctx, branch)
	return now != "" && now != commit, err
}

// Branch is the one that a delivery is published as.
func Branch(run, title string) string { return DeliverBranches + run + "-" + Slug(title) }

// Slug is a title as a part of a branch's name.
func Slug(title string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(title) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == 40 {
			break
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return "change"
}
