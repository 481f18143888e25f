package delivery

import (
	"context"
	"errors"
	"fmt"
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

// Keep has a hidden ref name a commit, so that git does not remove it.
func (r *Repo) Keep(ctx context.Context, run string, n int, commit string) (ref string, err error) {
	ref = hidden + run + "/" + strconv.Itoa(n)
	return ref, r.replaceRef(ctx, ref, commit)
}

// ErrBranchExists is a branch that is there already, and elsewhere.
var ErrBranchExists = errors.New("the branch exists")

// Publish makes the branch of a delivery. One that is at the commit already is left as it
// is; one that is elsewhere is never moved.
func (r *Repo) Publish(ctx context.Context, branch, commit string) error {
	if !strings.HasPrefix(branch, DeliverBranches) {
		return fmt.Errorf("%q is not a branch of a delivery", branch)
	}
	err := r.setRef(ctx, branch, commit, absent)
	if errors.Is(err, errRefHeld) {
		return fmt.Errorf("%w: %s", ErrBranchExists, branch)
	}
	return err
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
