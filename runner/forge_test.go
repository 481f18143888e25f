package runner_test

import (
	"bytes"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/journal"
)

// forge changes a text in the first record of a kind and stores the run as if it had
// always been so: chained and signed with its own keys. Integrity has nothing to say
// then.
func (b *bed) forge(run tipstaff.ID, kind tipstaff.Kind, from, to string) {
	b.t.Helper()
	b.rewrite(run, func(records []journal.Record) {
		i := slices.IndexFunc(records, func(r journal.Record) bool { return r.Kind == string(kind) && bytes.Contains(r.Body, []byte(from)) })
		if i < 0 {
			b.t.Fatalf("no %s says %s", kind, from)
		}
		records[i].Body = bytes.Replace(records[i].Body, []byte(from), []byte(to), 1)
	})
}

// rewrite is forge for whatever is done to the records.
func (b *bed) rewrite(run tipstaff.ID, change func([]journal.Record)) {
	b.t.Helper()
	b.forged[run.String()] = true
	var records []journal.Record
	for _, e := range b.events(run) {
		r, err := journal.Parse(e.Raw)
		b.check(err)
		records = append(records, r)
	}
	change(records)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.dir, ".tipstaff", "tipstaff.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	b.check(err)
	defer db.Close()
	var head, prev journal.Hash
	for at, r := range records {
		raw := b.sealed(r, head, prev)
		if journal.IsEnvelope(r.Kind) {
			prev = journal.Sum(raw)
		}
		head = head.Next(raw)
		_, err = db.Exec(`UPDATE records SET bytes = ?, hash = ? WHERE seq = ? AND run = (SELECT n FROM runs WHERE id = ?)`, raw, head[:], at+1, run.String())
		b.check(err)
	}
	var fold int64
	b.check(db.QueryRow(`SELECT head FROM runs WHERE id = ?`, run.String()).Scan(&fold))
	_, err = db.Exec(`UPDATE runs SET env = ?, head_hash = (SELECT hash FROM records WHERE run = n AND seq = ?) WHERE id = ?`, prev[:], fold, run.String())
	b.check(err)
	b.check(b.store.Flush(cli())) // or a file that is still to be written comes in between
	b.check(os.RemoveAll(filepath.Join(b.dir, ".tipstaff", "journal", run.String())))
	b.check(os.RemoveAll(filepath.Join(b.dir, ".tipstaff", "runs", run.String(), "decisions")))
}

func (b *bed) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) sealed(r journal.Record, head, prev journal.Hash) []byte {
	b.t.Helper()
	if !journal.IsEnvelope(r.Kind) {
		return r.AppendTo(nil)
	}
	name := "executor"
	if r.From == journal.User {
		name = "user"
	}
	seed, err := hex.DecodeString(strings.TrimSpace(b.read(filepath.Join(".tipstaff", "keys", name+".key"))))
	b.check(err)
	key, err := journal.NewPrivateKey(seed)
	b.check(err)
	r.Head, r.Prev = head.String(), prev.String()
	raw, err := key.Seal(r)
	b.check(err)
	return raw
}

// found checks that a forged run is in order byte by byte and does not conform.
func (b *bed) found(run tipstaff.ID) {
	b.t.Helper()
	rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Run: run, Open: true})
	b.check(err)
	if !rep.Integrity.OK {
		b.t.Errorf("integrity: %+v", rep.Integrity.Problems)
	}
	if rep.Conformance.OK {
		b.t.Error("it is taken for sound")
	}
}

func TestForgedDraftIsFound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, attack := range map[string]struct {
		kind     tipstaff.Kind
		from, to string
	}{
		"an output":          {tipstaff.KindDraftUpdated, `"o":{"a":1}`, `"o":{"a":2}`},
		"what was used":      {tipstaff.KindDraftUpdated, `"used":{"model_calls":2}`, `"used":{"model_calls":1}`},
		"a report of use":    {tipstaff.KindDraftUpdated, `"llm_calls":2`, `"llm_calls":1`},
		"a version":          {tipstaff.KindDraftUpdated, `"version":2`, `"version":3`},
		"who locked it":      {tipstaff.KindDraftUpdated, `"by":"local:cli"`, `"by":"local:cli","unlocked":"01M7GGPA5VSGA5RH92W87ZQ97T"`},
		"the input":          {tipstaff.KindIntentDraft, `"raw_input":"do it"`, `"raw_input":"do not"`},
		"what it began with": {tipstaff.KindRunContinued, `"o":{"a":1}`, `"o":{"a":2}`},
		"its counters":       {tipstaff.KindRunContinued, `"used":{"model_calls":2}`, `"used":{"model_calls":1}`},
		"its bounds":         {tipstaff.KindIntentAccept, `"model_calls":10`, `"model_calls":11`},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			run := b.held()
			b.change(tipstaff.EnvelopeUpdate{Run: run, Outputs: map[string]json.RawMessage{"o": json.RawMessage(`{"a": 1}`)}, Usage: &tipstaff.Usage{LLMCalls: 2}})
			b.begin(run)
			b.verified(run)
			b.forge(run, attack.kind, attack.from, attack.to)
			b.found(run)
		})
	}
}

func TestForgedRollbackIsFound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("tipstaff.yaml", manifest+"bounds: {iterations: 5}\n")
	for name, attack := range map[string]struct {
		kind     tipstaff.Kind
		from, to string
	}{
		"a counter of the program": {tipstaff.KindIntentDraft, `"llm_call_count":2`, `"llm_call_count":1`},
		"a visit":                  {tipstaff.KindIntentDraft, `"visits":{"critic":2`, `"visits":{"critic":1`},
		"a counter of the ledger":  {tipstaff.KindRunForked, `"model_calls":2`, `"model_calls":1`},
		"an edit":                  {tipstaff.KindRunForked, `"verdict":"ok"`, `"verdict":"no"`},
		"its author":               {tipstaff.KindRunForked, `"by":"local:cli"`, `"by":"somebody"`},
		"a bound":                  {tipstaff.KindIntentDraft, `"model_calls":10`, `"model_calls":12`},
		"what was raised":          {tipstaff.KindIntentDraft, `"max_iterations":4`, `"max_iterations":5`},
		"the turn":                 {tipstaff.KindIntentDraft, `"turn":2`, `"turn":1`},
		"whose Envelope it is":     {tipstaff.KindIntentDraft, `"pipeline":{"envelope_id":"env_`, `"pipeline":{"envelope_id":"env_X`},
		"the rules it is under":    {tipstaff.KindIntentDraft, `"rules":5`, `"rules":0`},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			old, _ := b.pipe(review)
			got := b.fork(forking{Run: old, Checkpoint: b.checkpoints(old)[0].ID, Rollback: true, Raise: map[string]int64{"max_iterations": 4},
				Outputs: map[string]json.RawMessage{"critic": json.RawMessage(`{"verdict": "ok"}`)}})
			b.verified(got.ID)
			b.forge(got.ID, attack.kind, attack.from, attack.to)
			b.found(got.ID)
			b.forged[old.String()] = true // it says that the other has taken its place, which may say so no more
		})
	}
}

// What takes the place of a fork has the Envelope of the fork, and of nobody else, even
// if all of its records agree.
func TestForgedRollbackOfAForkIsFound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	old, _ := b.pipe(review)
	other, _ := b.pipe(review)
	cp := b.checkpoints(old)[0].ID
	for name, attack := range map[string]func(fork tipstaff.ID) *strings.Replacer{
		"another's Envelope": func(fork tipstaff.ID) *strings.Replacer {
			return strings.NewReplacer("env_"+fork.String(), "env_"+other.String())
		},
		"the Envelope of its source": func(fork tipstaff.ID) *strings.Replacer {
			return strings.NewReplacer("env_"+fork.String(), "env_"+old.String())
		},
		"it left the source": func(fork tipstaff.ID) *strings.Replacer {
			return strings.NewReplacer(`"from":"`+fork.String(), `"from":"`+old.String(), `"from_run":"`+fork.String(), `"from_run":"`+old.String())
		},
		"it left another": func(fork tipstaff.ID) *strings.Replacer {
			return strings.NewReplacer(`"from":"`+fork.String(), `"from":"`+other.String(), `"from_run":"`+fork.String(), `"from_run":"`+other.String())
		},
		"it left nobody": func(fork tipstaff.ID) *strings.Replacer {
			none := tipstaff.NewID(time.Now()).String()
			return strings.NewReplacer(`"from":"`+fork.String(), `"from":"`+none, `"from_run":"`+fork.String(), `"from_run":"`+none)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			fork := b.fork(forking{Run: old, Checkpoint: cp}).ID
			got := b.fork(forking{Run: fork, Checkpoint: cp, Rollback: true}).ID
			b.verified(got)
			b.rewrite(got, func(records []journal.Record) {
				for i := range records {
					records[i].Body = []byte(attack(fork).Replace(string(records[i].Body)))
				}
			})
			b.found(got)
			b.forged[fork.String()] = true // it says that the other has taken its place, which may say so no more
		})
	}
}

// A run says that another has taken its place only if that one says so too.
func TestForgedEndIsFound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run, _ := b.pipe(review)
	if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run}); err != nil {
		t.Fatal(err)
	}
	b.forge(run, tipstaff.KindIntentCancel, `"via"`, `"via"`) // which changes nothing
	b.verified(run)
	b.forge(run, tipstaff.KindIntentCancel, `"terminal_reason":"user_cancelled"`, `"terminal_reason":"rolled_back"`)
	b.found(run)
}

// An end that says something else than the program comes to is found, whatever of it was
// altered: nothing else need be.
func TestForgedEndOfAPlanIsFound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, forged := range map[string]struct {
		kind     tipstaff.Kind
		from, to string
		make     func() tipstaff.ID
	}{
		"the outcome": {tipstaff.KindIntentAttest, `"outcome":"success"`, `"outcome":"partial"`, func() tipstaff.ID {
			run, _ := b.run(`root: {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}`)
			return run
		}},
		"who cancelled": {tipstaff.KindIntentCancel, `"on_behalf_of":"local:cli"`, `"on_behalf_of":"local:mcp"`, func() tipstaff.ID {
			run, _ := b.run(gated)
			_, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run})
			b.check(err)
			return run
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			run := forged.make()
			b.verified(run)
			b.forge(run, forged.kind, forged.from, forged.to)
			b.foundAs(run, "outcome")
		})
	}
}
