package flowtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/tipstaff/tipstaff/flow"
)

// audit checks what holds of every journal, whatever was run and however often
// it crashed: first by rules that are written out here, then by flow.Conform.
func (r *rig) audit() {
	r.t.Helper()
	j := r.journal()
	if fault := j.broken(); fault != "" {
		r.t.Fatalf("%s%v", fault, j)
	}
	if fault := r.overdone(j); fault != "" {
		r.t.Fatalf("%s%v", fault, j)
	}
	if fault := r.miscounted(j); fault != "" {
		r.t.Fatalf("%s%v", fault, j)
	}
	if found := flow.Conform(r.history(), r.job.Limits); len(found) > 0 {
		r.t.Fatalf("the journal does not conform: %v%v", found, j)
	}
}

// place is where a call or an event stands: keys are unique within a segment.
type place struct {
	segment    int
	path, kind string
}

// broken names the first rule of journals that this one breaks.
func (j journal) broken() string {
	var seq, epoch int64
	segment := 0
	done := map[place]bool{}
	emitted := map[place]int{}
	over := ""
	for _, r := range j {
		if r.Seq != seq+1 {
			return fmt.Sprintf("seq %d follows %d", r.Seq, seq)
		}
		seq = r.Seq
		if over != "" {
			return fmt.Sprintf("%s was appended after %s", r.Kind, over)
		}
		if r.Epoch != 0 && r.Epoch < epoch {
			return fmt.Sprintf("epoch falls to %d at seq %d", r.Epoch, r.Seq)
		}
		epoch = max(epoch, r.Epoch)
		at := place{segment: segment, path: r.Path}
		switch r.Kind {
		case "effect.intended", "effect.failed", "effect.suspended", "effect.finished":
			if done[at] {
				return fmt.Sprintf("%s at %s after its outcome", r.Kind, r.Path)
			}
			done[at] = r.Kind == "effect.finished"
		case "group.closed", "timer.fired", "timer.set", "clock.read", "policy.gate":
			at.kind = r.Kind
			if done[at] {
				return fmt.Sprintf("a second %s at %s", r.Kind, r.Path)
			}
			done[at] = true
		case "run.continued":
			segment++
		}
		if r.N > 0 {
			if emitted[at]++; emitted[at] != r.N {
				return fmt.Sprintf("event %d of %s is numbered %d", emitted[at], r.Path, r.N)
			}
		}
		if terminal(r.Kind) {
			over = r.Kind
		}
	}
	return ""
}

// overdone names the first effect that the world saw and should not have.
func (r *rig) overdone(j journal) string {
	keys := map[string]string{}
	attempts := map[Seen]int{}
	for _, c := range r.world.Calls() {
		if other, ok := keys[c.Path]; ok && other != c.Key && len(j.of("run.continued")) == 0 {
			return fmt.Sprintf("two idempotency keys for %s", c.Path)
		}
		keys[c.Path] = c.Key
		if c.Class != flow.Once {
			continue
		}
		if attempts[c]++; attempts[c] > 1 {
			return fmt.Sprintf("attempt %d of the once call %s was made twice", c.N, c.Path)
		}
		if !j.intended(c.Path, c.N) {
			return fmt.Sprintf("attempt %d of the once call %s was made without an intent", c.N, c.Path)
		}
	}
	return ""
}

func (j journal) intended(path string, attempt int) bool {
	for _, r := range j.of("effect.intended").at(path) {
		if read(r).Attempt == attempt {
			return true
		}
	}
	return false
}

// idempotencyKey is what every attempt of a call at this path must carry.
func idempotencyKey(run, path string) string {
	sum := sha256.Sum256([]byte(run + "\n" + path))
	return hex.EncodeToString(sum[:])
}

// callDigest is what identifies a call.
func callDigest(name string, input []byte) string {
	sum := sha256.Sum256(append(append([]byte(name), 0), input...))
	return "sha256:" + hex.EncodeToString(sum[:])
}
