package e2e

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/journal"
)

// What the product says is computed here once more, from the documentation: digests and
// signatures from journal/README.md, weights from docs/memory.md.

// digest is that of bytes as they are.
func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// digestOf is the digest of a document in canonical form; "" if it is none.
func digestOf(document []byte) string {
	form, err := canon.Form(document)
	if err != nil {
		return ""
	}
	return digest(form)
}

// chained is the hash over a log: that of each record over the one before and its bytes.
func chained(records [][]byte) string {
	hash := make([]byte, sha256.Size)
	for _, r := range records {
		sum := sha256.Sum256(append(hash, r...))
		hash = sum[:]
	}
	return fmt.Sprintf("sha256:%x", hash)
}

// signer is who has signed an envelope: user or executor, as it says itself and as the
// signature proves; else what is wrong with it.
func (e *evidence) signer(envelope *tipstaff.Event) string {
	keys := map[string]journal.PublicKey{"user": e.User, "executor": e.Executor}
	key, ok := keys[envelope.From]
	if !ok {
		return "nobody"
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(envelope.Raw, &members) != nil {
		return "nobody"
	}
	delete(members, "sig")
	form, err := canon.Form([]byte(text(members)))
	sig, serr := base64.StdEncoding.DecodeString(envelope.Sig)
	if err != nil || serr != nil || !ed25519.Verify(key[:], form, sig) || envelope.Key != digest(key[:]) {
		return "not the " + envelope.From
	}
	return envelope.From
}

// member is the value at a path of names inside a JSON document; nil if there is none.
func member(document []byte, names ...string) any {
	var v any
	if json.Unmarshal(document, &v) != nil {
		return nil
	}
	for _, name := range names {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// toolsOf are the tools that a document names anywhere.
func toolsOf(v any) (found []string) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			found = append(found, toolsOf(item)...)
		}
	case map[string]any:
		for _, item := range v {
			found = append(found, toolsOf(item)...)
		}
	case string:
		if strings.HasPrefix(v, "mcp://") {
			found = append(found, v)
		}
	}
	return found
}

// entry is a record of the memory's log.
type entry struct {
	Seq  int64
	Kind string
	Run  string
	At   time.Time
	Body struct {
		SourceSeq int64 `json:"source_seq"`
		Cited     []string
		Counted   []string
		Prev, New [5]int64
	}
}

func (m memoryLog) entries() (all []entry) {
	for _, r := range m.Records {
		var e entry
		_ = json.Unmarshal(r, &e) // what cannot be read is no entry of any kind
		all = append(all, e)
	}
	return all
}

// ends are the attest of a run and the record after it, of all that the log has.
func (m memoryLog) ends(run tipstaff.ID) (attests []entry, next entry) {
	all := m.entries()
	for i, a := range all {
		if a.Kind == "attest" && a.Run == run.String() {
			attests = append(attests, a)
			if i+1 < len(all) {
				next = all[i+1]
			}
		}
	}
	return attests, next
}

// learned are the weights after a success, by docs/memory.md: w + (t − w)/20, where t is
// the share that a factor has in the worth of the counted items.
func learned(w [5]int64, counted []tipstaff.MemoryItem, at time.Time) [5]int64 {
	var worth [4]int64
	for _, item := range counted {
		uses := func(n int64) float64 { return min(1, math.Log1p(float64(n))/math.Log(1001)) }
		for i, f := range []float64{
			math.Exp(-float64(at.Sub(item.LastUsedAt)) / float64(90*24*time.Hour)),
			uses(item.Accesses), uses(item.Citations), float64(item.Importance) / 10,
		} {
			worth[i] += int64(math.RoundToEven(f * 1e9))
		}
	}
	total := big.NewRat(worth[0]+worth[1]+worth[2]+worth[3], 1)
	share := big.NewRat(1e9-w[4], 1)
	if total.Sign() == 0 {
		return w
	}
	var moved [4]*big.Rat
	sum := new(big.Rat)
	for i := range moved {
		target := new(big.Rat).Quo(new(big.Rat).Mul(share, big.NewRat(worth[i], 1)), total)
		now := big.NewRat(w[i], 1)
		step := new(big.Rat).Quo(new(big.Rat).Sub(target, now), big.NewRat(20, 1))
		moved[i] = now.Add(now, step)
		sum.Add(sum, moved[i])
	}
	lacking := 1e9 - w[4]
	fractions := map[int]*big.Rat{}
	for i, m := range moved {
		scaled := new(big.Rat).Quo(new(big.Rat).Mul(m, share), sum)
		whole := new(big.Int).Quo(scaled.Num(), scaled.Denom())
		w[i] = whole.Int64()
		lacking -= w[i]
		fractions[i] = scaled.Sub(scaled, new(big.Rat).SetInt(whole))
	}
	order := []int{0, 1, 2, 3}
	slices.SortStableFunc(order, func(a, b int) int { return fractions[b].Cmp(fractions[a]) })
	for _, i := range order[:lacking] {
		w[i]++
	}
	return w
}

// Texts in which two runs of the same script differ: ids, times and hashes.
var differs = regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}|\d{4}-\d\d-\d\dT[0-9:.]+Z|(sha256:)?[0-9a-f]{64}`)

// Members that are left out besides, because they are times; and those that tell a live
// model from one that repeats what it said.
var (
	timed   = []string{"ms", "latency_ms", "wall_ms"}
	byModel = []string{"model", "usage", "used", "use", "reserve", "opaque", "est_input_tokens", "max_output_tokens", "output_schema"}
)

// sequences are kinds and bodies of the records of each path, without what differs
// between two runs that do the same.
func (e *evidence) sequences(without []string) map[string][]any {
	all := map[string][]any{}
	for i := range e.Records {
		r := &e.Records[i]
		all[r.Path] = append(all[r.Path], object{string(r.Kind): same(member(r.Body), without)})
	}
	return all
}

// same is a value without the parts that differ.
func same(v any, without []string) any {
	switch v := v.(type) {
	case string:
		return differs.ReplaceAllString(v, "…")
	case []any:
		for i := range v {
			v[i] = same(v[i], without)
		}
	case map[string]any:
		if used, ok := v["used"].(map[string]any); ok {
			delete(used, "wall_time")
		}
		for name := range v {
			if v[name] = same(v[name], without); slices.Contains(without, name) {
				delete(v, name)
			}
		}
	}
	return v
}

// recorded is what a model has said that nobody has scripted: the last answer before the
// question, the last before the acceptance, and that of the step.
func (e *evidence) recorded() (said replies) {
	for _, r := range e.of(tipstaff.KindAgentMessage) {
		reply := tipstaff.BodyOf[tipstaff.AgentMessage](r).Text
		reply = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(reply), "```json"), "```"), "```"))
		switch {
		case strings.HasPrefix(r.Path, "root"):
			said.Step = reply
		case member([]byte(reply), "questions") != nil:
			said.Questions = reply
		default:
			said.Plan = reply
		}
	}
	return said
}

// spoken is a script of all that a model has said, each answer at its place.
func (e *evidence) spoken() []byte {
	answers := []any{}
	for _, r := range e.of(tipstaff.KindAgentMessage) {
		answers = append(answers, object{"when": object{"path": r.Path}, "text": tipstaff.BodyOf[tipstaff.AgentMessage](r).Text})
	}
	return []byte(text(object{"version": 1, "answers": answers}))
}
