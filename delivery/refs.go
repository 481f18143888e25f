package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
)

// Prefixes of the refs that are ours.
const (
	RunBranches     = "refs/heads/tipstaff/run/"     // of worktrees
	DeliverBranches = "refs/heads/tipstaff/deliver/" // what was approved
	hidden          = "refs/tipstaff/"               // what was shown to a decider
)

// absent is the old value of a ref that must not exist.
const absent = "absent"

// errRefHeld is a ref that has another value than was expected.
var errRefHeld = errors.New("the ref has another value")

// setRef is the one place where refs change. It sets one of ours from an old value
// ([absent]: it must not exist), or deletes it (value ""), and refuses all others. A ref
// that is there with the new value already is left as it is.
func (r *Repo) setRef(ctx context.Context, ref, value, old string) error {
	ours := strings.HasPrefix(ref, "refs/heads/tipstaff/") || strings.HasPrefix(ref, hidden)
	if !ours || strings.Contains(ref, "..") || strings.ContainsAny(ref, "\x00\n ") {
		return fmt.Errorf("%q is not a ref of Tipstaff: nothing was changed", ref)
	}
	if value != "" && !r.isID(value) || old != absent && !r.isID(old) {
		return fmt.Errorf("%s cannot be set from %q to %q: these are no object names", ref, old, value)
	}
	zero := strings.Repeat("0", r.hexLen())
	var script bytes.Buffer
	script.WriteString("option no-deref\n") // a planted symbolic ref would lead to one of the user's
	if old == absent {
		old = zero
	}
	if value == "" {
		fmt.Fprintf(&script, "delete %s %s\n", ref, old)
	} else {
		fmt.Fprintf(&script, "update %s %s %s\n", ref, value, old)
	}
	_, err := r.onRefs(ctx, script.Bytes(), "update-ref", "--stdin")
	var exit *ExitError
	if !errors.As(err, &exit) || noRoom(err) {
		return err
	}
	if now, err := r.refValue(ctx, ref); err != nil || now == value { // it was done before
		return err
	}
	return fmt.Errorf("%w: %s: %s", errRefHeld, ref, strings.TrimSpace(exit.Stderr))
}

// replaceRef sets a ref whatever it was: what an attempt has left that was broken off.
func (r *Repo) replaceRef(ctx context.Context, ref, value string) error {
	err := r.setRef(ctx, ref, value, absent)
	if !errors.Is(err, errRefHeld) {
		return err
	}
	now, err := r.refValue(ctx, ref)
	if err != nil {
		return err
	}
	return r.setRef(ctx, ref, value, now)
}

// refValue is what a ref holds, "" if there is none. A symbolic ref is none of ours, and
// has a value that no object has.
func (r *Repo) refValue(ctx context.Context, ref string) (string, error) {
	out, err := r.onRefs(ctx, nil, "for-each-ref", "--format=%(refname) %(objectname) %(symref)", ref)
	if err != nil {
		return "", err
	}
	for line := range strings.SplitSeq(string(out), "\n") {
		fields := strings.Split(line, " ")
		if fields[0] != ref { // the pattern also matches what lies below
			continue
		}
		if fields[2] != "" {
			return "ref: " + fields[2], nil
		}
		return fields[1], nil
	}
	return "", nil
}
