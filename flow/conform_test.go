package flow

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// told makes records of lines: kind, path ("-" is none) and body, after words that
// say what else they are: note, n2 (an event), e2 (the epoch), s2 (the seq, else its
// place). In bodies CALL is the digest of the call t with the input {}, ASKS that of
// the gate that the test asks with.
func told(t *testing.T, lines ...string) (records []Record) {
	t.Helper()
	words := strings.NewReplacer("CALL", CallDigest("t", []byte("{}")),
		"ASKS", GateDigest(Gate{Kind: "question", Question: "Go?", Subject: json.RawMessage(`{}`), Actions: []string{"go", "no"}, Deny: "no"}))
	number := func(word string) int {
		n, err := strconv.Atoi(word[1:])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, line := range lines {
		r := Record{Seq: int64(i + 1)}
		for {
			word, rest, _ := strings.Cut(line, " ")
			if word == "note" {
				r.Note = true
			} else if word[0] == 'n' && len(word) == 2 {
				r.N = number(word)
			} else if word[0] == 'e' && len(word) == 2 {
				r.Epoch = int64(number(word))
			} else if word[0] == 's' && len(word) == 2 {
				r.Seq = int64(number(word))
			} else {
				break
			}
			line = rest
		}
		parts := strings.SplitN(line, " ", 3)
		r.Kind, r.Path, r.Body = parts[0], strings.TrimPrefix(parts[1], "-"), json.RawMessage(words.Replace(parts[2]))
		records = append(records, r)
	}
	return records
}

const (
	intended = `effect.intended a {"name":"t","class":"read","attempt":1,"digest":"CALL","input":{}}`
	finished = `effect.finished a {"attempt":1,"value":1}`
	asked    = `policy.gate g {"gate":"G","gate_kind":"question","question":"Go?","subject":{},"actions":["go","no"],"deny":"no","digest":"ASKS"}`
	resolved = `policy.gate.resolve - {"gate":"G","action":"go","subject_digest":"ASKS","on_behalf_of":"user:ada"}`
	taken    = `gate.taken g {"gate":"G","seq":2}`
)

// with gives a line other members, put before its own.
func with(line, members string) string { return strings.Replace(line, "{", "{"+members+",", 1) }

// put is a line with one text replaced.
func put(line, old, new string) string { return strings.Replace(line, old, new, 1) }

func refusedFor(name string, wanted int) string {
	return `effect.finished a {"name":"t","attempt":1,"digest":"CALL","input":{},"wanted":{"` + name + `":` + strconv.Itoa(wanted) +
		`},"error":{"code":"bound_exceeded","bound":"` + name + `","not_sent":true}}`
}

func doubted(action, answer string) []string {
	return []string{put(intended, "read", "once"),
		put(put(put(asked, "policy.gate g", "policy.gate "+doubtKey("a", 1)), `"gate_kind":"question"`, `"gate_kind":"in_doubt"`), "ASKS", GateDigest(Gate{Kind: "in_doubt", Question: "Go?", Subject: json.RawMessage(`{}`), Actions: []string{"go", "no"}, Deny: "no"})),
		put(put(resolved, `"go"`, `"`+action+`","answer":`+answer), "ASKS", GateDigest(Gate{Kind: "in_doubt", Question: "Go?", Subject: json.RawMessage(`{}`), Actions: []string{"go", "no"}, Deny: "no"})),
		put(put(taken, "taken g", "taken "+doubtKey("a", 1)), `"seq":2`, `"seq":3`)}
}

// offered are the records of a call whose outcome was brought late, up to the decision to
// take it.
func offered() []string {
	lines := doubted("use_result", "null")
	lines[2] = put(lines[2], `,"answer":null`, "")
	return append(lines, `effect.given a {"attempt":1,"from":"h1","value":7,"use":{"x":1}}`)
}

// TestConformFindsWhatNoEngineWrites has the rules one by one: records that keep a
// rule beside records that break it, and what is said of those.
func TestConformFindsWhatNoEngineWrites(t *testing.T) {
	type lines = []string
	for _, c := range []struct {
		name  string
		lines lines
		want  string // of one fault; "": none
	}{
		{"a call", lines{intended, finished}, ""},
		{"finished without an intent", lines{finished}, "the call was finished but never intended"},
		{"finished with a name and no input", lines{with(finished, `"name":"t","digest":"CALL"`)}, "the call was finished but never intended"},
		{"finished with an input and no name", lines{with(finished, `"digest":"CALL","input":{}`)}, "the call was finished but never intended"},
		{"begun after it was finished", lines{intended, finished, put(intended, `"attempt":1`, `"attempt":2`)}, "effect.intended after the call was finished"},
		{"another digest", lines{intended, with(finished, `"digest":"sha256:x"`)}, "its digest sha256:x is not the call's " + CallDigest("t", []byte("{}"))},
		{"the same digest again", lines{intended, with(finished, `"digest":"CALL"`)}, ""},
		{"another input", lines{put(intended, `"input":{}`, `"input":[]`), finished}, "its input has the digest " + CallDigest("t", []byte("[]")) + ", not " + CallDigest("t", []byte("{}"))},
		{"an input that is kept elsewhere", lines{put(intended, `"input":{}`, `"input":{"$blob":"sha256:x"}`), finished}, ""},
		{"an input told twice", lines{intended, put(put(intended, `"attempt":1`, `"attempt":2`), `"input":{}`, `"input":[]`)}, ""},
		{"a second attempt first", lines{put(intended, `"attempt":1`, `"attempt":2`)}, "attempt 2 follows attempt 0"},
		{"a failure, a retry", lines{intended, `effect.failed a {"attempt":1}`, put(intended, `"attempt":1`, `"attempt":2`), put(finished, "1", "2")}, ""},
		{"a failure that was not intended", lines{with(`effect.failed a {"attempt":1}`, `"name":"t","digest":"CALL","input":{}`), put(finished, "1", "2")}, ""},
		{"a failure of the wrong attempt", lines{intended, `effect.failed a {"attempt":2}`}, "attempt 2, but 1 was due"},
		{"a failure twice", lines{intended, `effect.failed a {"attempt":1}`, `effect.failed a {"attempt":1}`}, "attempt 1, but 2 was due"},
		{"a retry of once", lines{put(intended, "read", "once"), `effect.failed a {"attempt":1}`}, "a once call is never retried"},
		{"suspended", lines{intended, `effect.suspended a {"attempt":1}`, finished}, ""},
		{"suspended at once", lines{with(`effect.suspended a {"attempt":1}`, `"name":"t","digest":"CALL","input":{}`), finished}, ""},
		{"suspended as another", lines{intended, `effect.suspended a {"attempt":2}`}, "attempt 2, but 1 was due"},
		{"finished again after a failure", lines{intended, `effect.failed a {"attempt":1}`, finished}, "finished as attempt 1 after attempt 1"},
		{"finished as the next", lines{intended, put(finished, "1", "2")}, "finished as attempt 2 after attempt 1"},
		{"refused as the next", lines{intended, `effect.finished a {"attempt":2,"error":{"code":"x","not_sent":true}}`}, ""},
		{"failed as the next", lines{intended, `effect.finished a {"attempt":2,"error":{"code":"x"}}`}, "finished as attempt 2 after attempt 1"},
		{"finished as the one after the next", lines{intended, `effect.finished a {"attempt":3,"error":{"code":"x","not_sent":true}}`}, "finished as attempt 3 after attempt 1"},

		{"all that is allowed", lines{with(intended, `"reserve":{"calls":3}`)}, ""},
		{"one more", lines{with(intended, `"reserve":{"calls":4}`)}, "calls was granted beyond its bound: limit 3, used 0, held 0, reserved 0, wanted 4"},
		{"together too much", lines{with(intended, `"reserve":{"calls":2}`), put(with(intended, `"reserve":{"calls":2}`), "intended a", "intended b")}, "calls was granted beyond its bound: limit 3, used 0, held 0, reserved 2, wanted 2"},
		{"what was used counts", lines{with(intended, `"reserve":{"calls":1}`), with(finished, `"use":{"calls":2}`), put(with(intended, `"reserve":{"calls":2}`), "intended a", "intended b")},
			"calls was granted beyond its bound: limit 3, used 2, held 0, reserved 0, wanted 2"},
		{"what was not used is free again", lines{with(intended, `"reserve":{"calls":3}`), with(finished, `"use":{"calls":0}`), put(with(intended, `"reserve":{"calls":3}`), "intended a", "intended b")}, ""},
		{"a lost attempt is charged", lines{with(intended, `"reserve":{"calls":2}`), put(with(intended, `"reserve":{"calls":2}`), `"attempt":1`, `"attempt":2`)},
			"calls was granted beyond its bound: limit 3, used 2, held 0, reserved 0, wanted 2"},
		{"a lost attempt, and what is left", lines{with(intended, `"reserve":{"calls":2}`), put(with(intended, `"reserve":{"calls":1}`), `"attempt":1`, `"attempt":2`)}, ""},
		{"more, for an attempt", lines{intended, `note bound.reserved a {"by":{"calls":3}}`}, ""},
		{"more than there is", lines{intended, `note bound.reserved a {"by":{"calls":4}}`}, "calls was granted beyond its bound: limit 3, used 0, held 0, reserved 0, wanted 4"},
		{"less than nothing", lines{intended, `note bound.reserved a {"by":{"calls":-1}}`}, "flow: -1 calls cannot be reserved: amounts are not negative"},
		{"more time", lines{intended, `note bound.reserved a {"by":{"` + WallTime + `":1}}`}, "flow: " + WallTime + " is measured and cannot be reserved"},
		{"more, for nobody", lines{`note bound.reserved a {"by":{"calls":1}}`}, "more is reserved, but no attempt is under way"},
		{"more, when all is over", lines{intended, finished, `note bound.reserved a {"by":{"calls":1}}`}, "more is reserved, but no attempt is under way"},
		{"more, after a failure", lines{intended, `effect.failed a {"attempt":1}`, `note bound.reserved a {"by":{"calls":1}}`}, "more is reserved, but no attempt is under way"},
		{"a note of somebody else", lines{`note effect.finished a {}`}, ""},
		{"a refusal that is right", lines{refusedFor("calls", 4)}, ""},
		{"a refusal of what fits", lines{refusedFor("calls", 3)}, "calls was refused although it fitted: limit 3, used 0, held 0, reserved 0, wanted 3"},
		{"a refusal beside what is held", lines{put(with(intended, `"reserve":{"calls":2}`), "intended a", "intended b"), refusedFor("calls", 2)}, ""},
		{"a refusal of what is not limited", lines{refusedFor("tokens", 3)}, "tokens was refused although it fitted: limit 0, used 0, held 0, reserved 0, wanted 3"},
		{"a refusal because of time", lines{refusedFor(WallTime, 3)}, ""},
		{"a refusal that a person gave", lines{
			put(put(asked, "gate g", "gate a/bound#1"), `"gate_kind":"question"`, `"gate_kind":"question"`), put(resolved, `"go"`, `"stop"`), put(taken, "taken g", "taken a/bound#1"),
			refusedFor("calls", 3)}, ""},
		{"a refusal after an extension", lines{
			put(asked, "gate g", "gate a/bound#1"), put(resolved, `"go"`, `"extend"`), put(taken, "taken g", "taken a/bound#1"),
			refusedFor("calls", 3)}, "calls was refused although it fitted: limit 3, used 0, held 0, reserved 0, wanted 3"},

		{"a gate", lines{asked, resolved, taken}, ""},
		{"a gate that shows something else", lines{put(asked, "ASKS", "sha256:x")}, "what it shows has the digest " + GateDigest(Gate{Kind: "question", Question: "Go?", Subject: json.RawMessage(`{}`), Actions: []string{"go", "no"}, Deny: "no"}) + ", not sha256:x"},
		{"a gate whose subject is lost", lines{put(put(asked, "ASKS", "sha256:x"), `"subject":{}`, `"subject":{"$blob":"sha256:lost"}`)}, ""},
		{"a clarification", lines{`intent.clarify g {"gate":"G","digest":"sha256:x"}`}, ""},
		{"two decisions", lines{asked, resolved, resolved}, "gate G was already closed"},
		{"a decision about something else", lines{asked, put(resolved, "ASKS", "sha256:x")}, "it decides about sha256:x, but gate G asks about " + GateDigest(Gate{Kind: "question", Question: "Go?", Subject: json.RawMessage(`{}`), Actions: []string{"go", "no"}, Deny: "no"})},
		{"an acceptance, which names no subject", lines{asked, `intent.accept - {"gate":"G"}`}, ""},
		{"an acceptance of no gate, twice", lines{`intent.accept - {}`, `intent.accept - {}`}, ""},
		{"taken before it was decided", lines{asked, taken}, "it takes record 2, which is no earlier decision of gate G"},
		{"another record taken", lines{asked, resolved, put(taken, "2", "1")}, "it takes record 1, which is no earlier decision of gate G"},
		{"taken from the future", lines{"e1 " + asked, "s5 " + put(resolved, "x", "x"), "s5 e1 " + put(taken, "2", "5")}, "it takes record 5, which is no earlier decision of gate G"},
		{"taken from a base, whose numbers are its own", lines{asked, "s5 " + resolved, "s5 " + put(taken, "2", "5")}, ""},
		{"a closing taken", lines{asked, with(resolved, `"via":"superseded"`), taken}, "it takes a closing (superseded), which is no decision"},
		{"the end taken", lines{asked, with(resolved, `"via":"run_ended"`), taken}, "it takes a closing (run_ended), which is no decision"},
		{"taken twice", lines{asked, resolved, taken, taken}, "gate.taken stands there twice"},
		{"asked anew, taken anew", lines{asked, resolved, taken, put(asked, `"G"`, `"H"`), put(resolved, `"G"`, `"H"`), `gate.taken g {"gate":"H","seq":5}`}, ""},

		{"a result that a person gave", append(doubted("use_result", "7"), `effect.finished a {"attempt":1,"value":7,"by":"user:ada"}`), ""},
		{"another result than a person gave", append(doubted("use_result", "7"), `effect.finished a {"attempt":1,"value":8,"by":"user:ada"}`), "its value is not the answer of gate G"},
		{"a result of nothing", append(doubted("use_result", "null"), `effect.finished a {"attempt":1,"value":null,"by":"user:ada"}`), ""},
		{"a result in another's name", append(doubted("use_result", "7"), `effect.finished a {"attempt":1,"value":7,"by":"user:eve"}`), `the outcome was decided by user:ada, not by "user:eve"`},
		{"a result that was brought", append(offered(), `effect.finished a {"attempt":1,"value":7,"use":{"x":1}}`), ""},
		{"another result than was brought", append(offered(), `effect.finished a {"attempt":1,"value":8,"use":{"x":1}}`), "it is not what h1 brought for the call"},
		{"what was brought in a person's name", append(offered(), `effect.finished a {"attempt":1,"value":7,"by":"user:ada","use":{"x":1}}`), "it is not what h1 brought for the call"},
		{"what was brought with other use", append(offered(), `effect.finished a {"attempt":1,"value":7}`), "it is not what h1 brought for the call"},
		{"what was brought as a failure", append(offered(), `effect.finished a {"attempt":1,"value":7,"use":{"x":1},"error":{"code":"odd"}}`), "it is not what h1 brought for the call"},
		{"a failure that a person decided", append(doubted("fail", "null"), `effect.finished a {"attempt":1,"error":{"code":"in_doubt"},"by":"user:ada"}`), ""},
		{"another failure", append(doubted("fail", "null"), `effect.finished a {"attempt":1,"error":{"code":"timeout"},"by":"user:ada"}`), "gate G decided that the call failed"},
		{"no failure", append(doubted("fail", "null"), `effect.finished a {"attempt":1,"value":1,"by":"user:ada"}`), "gate G decided that the call failed"},
		{"finished instead of tried again", append(doubted("retry", "null"), `effect.finished a {"attempt":1,"value":1,"by":"user:ada","error":{"code":"x","not_sent":true}}`), "gate G decided that the call is tried again"},
		{"decided by nobody", lines{intended, with(finished, `"by":"user:ada"`)}, "user:ada is said to have decided the outcome, but no such decision was taken"},

		{"the clock, twice", lines{`clock.read a {}`, `clock.read b {}`, `clock.read a {}`}, "clock.read stands there twice"},
		{"a timer, twice", lines{`timer.set a {}`, `timer.set a {}`}, "timer.set stands there twice"},
		{"a group, twice", lines{`group.closed a {}`, `group.closed a {}`}, "group.closed stands there twice"},
		{"a timer", lines{`timer.set a {"until":"2026-01-31T12:00:01Z"}`, `timer.fired a {"t":"2026-01-31T12:00:01Z"}`}, ""},
		{"a timer that fired early", lines{`timer.set a {"until":"2026-01-31T12:00:01Z"}`, `timer.fired a {"t":"2026-01-31T12:00:00Z"}`}, "the timer fired 1s early"},
		{"a timer that fired twice", lines{`timer.set a {}`, `timer.fired a {}`, `timer.fired a {}`}, "timer.fired stands there twice"},
		{"a timer that nobody set", lines{`timer.fired a {}`}, "a timer fired that was never set"},
		{"events", lines{`n1 x a {}`, `n2 x a {}`, `n1 x b {}`}, ""},
		{"an event lost", lines{`n1 x a {}`, `n3 x a {}`}, "event 3 follows event 1"},
		{"an event twice", lines{`n1 x a {}`, `n1 x a {}`}, "event 1 follows event 1"},
		{"epochs", lines{`e1 x - {}`, `e2 x - {}`, `e2 x - {}`, `x - {}`}, ""},
		{"an epoch that is over", lines{`e2 x - {}`, `x - {}`, `e1 x - {}`}, "epoch 1 follows epoch 2"},
		{"what cannot be read", lines{`clock.read a [`}, `record 1 (clock.read at "a") cannot be read: unexpected end of JSON input`},

		{"another segment", lines{with(intended, `"reserve":{"calls":1}`), with(finished, `"use":{"calls":1}`), `run.continued - {"used":{"calls":1},"limit":{"calls":3}}`, intended, finished}, ""},
		{"a segment that forgets", lines{with(intended, `"reserve":{"calls":1}`), with(finished, `"use":{"calls":1}`), `run.continued - {"used":{},"limit":{"calls":3}}`}, "used calls is not the sum of what was recorded"},
		{"a segment that forgets what was lost", lines{with(intended, `"reserve":{"calls":1}`), `run.continued - {"used":{},"limit":{"calls":3}}`}, "used calls is not the sum of what was recorded"},
		{"a segment with more", lines{intended, finished, `run.continued - {"used":{},"limit":{"calls":4}}`}, "the limit of calls is not the one that was in force"},
		{"a segment that is the first to be seen", lines{`run.continued - {"used":{"calls":2},"limit":{"calls":9}}`, with(intended, `"reserve":{"calls":7}`)}, ""},
		{"totals go on", lines{`run.continued - {"used":{"calls":2},"limit":{"calls":3}}`, with(intended, `"reserve":{"calls":2}`)}, "calls was granted beyond its bound: limit 3, used 2, held 0, reserved 0, wanted 2"},
	} {
		h := History{Records: told(t, c.lines...), Blob: func(string) ([]byte, error) { return nil, errors.New("lost") }}
		var got []string
		for _, f := range Conform(h, Use{"calls": 3}) {
			got = append(got, f.Message)
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, text, c.want)
		}
	}
}

func TestConformKnowsTheLimitsOfLaterSegments(t *testing.T) {
	h := History{Records: told(t, intended, finished, `run.continued - {"used":{},"limit":{"calls":9}}`)}
	if found := Conform(h, Use{"calls": 3}, Use{"calls": 9}); len(found) > 0 {
		t.Error(found)
	}
	if found := Conform(h, Use{"calls": 3}, Use{"calls": 8}); len(found) != 1 {
		t.Error("a segment with other limits than it was given is taken: ", found)
	}
}

func TestConformOfForks(t *testing.T) {
	base := []string{"e5 " + with(intended, `"reserve":{"calls":2}`), "e5 " + finished, `run.cancel_requested - {}`}
	for _, c := range []struct {
		name      string
		base, own []string
		want      string
	}{
		{"all that its base had used", base, []string{`e1 run.forked - {"counters":{"calls":2},"limit":{"calls":3}}`}, ""},
		{"less than its base had used", base, []string{`e1 run.forked - {"counters":{"calls":1}}`}, "it begins with 1 calls used, but its base had used 2"},
		{"other limits", base, []string{`e1 run.forked - {"counters":{"calls":2},"limit":{"calls":4}}`}, "the limit of calls is not the one that it was given"},
		{"nothing said", base, []string{`e1 run.forked - {}`}, ""},
		{"what was in flight", base[:1], []string{`e1 run.forked - {"counters":{}}`}, "it begins with 0 calls used, but its base had used 2"},
		{"faults of the base are its own", []string{finished}, []string{`e1 run.forked - {}`}, ""},
		{"what was finished there is finished", base, []string{`e1 run.forked - {}`, put(intended, `"attempt":1`, `"attempt":2`)}, "effect.intended after the call was finished"},
	} {
		var got []string
		for _, f := range Conform(History{Base: told(t, c.base...), Records: told(t, c.own...)}, Use{"calls": 3}) {
			got = append(got, f.Message)
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, text, c.want)
		}
	}
}

func TestTotalsChargeWhatIsInFlight(t *testing.T) {
	h := History{Records: told(t, with(intended, `"reserve":{"calls":1,"tokens":5}`), with(finished, `"use":{"tokens":7}`),
		put(with(intended, `"reserve":{"calls":2}`), "intended a", "intended b"))}
	all := Totals(h, Use{"calls": 9})
	if diff := cmp.Diff(Tally{Used: Use{"calls": 3, "tokens": 7}, Held: Use{}, Limit: Use{"calls": 9}}, all); diff != "" {
		t.Error(diff)
	}
}

func TestFaultsNameTheirRecord(t *testing.T) {
	if got := (Fault{3, "root/a", "late"}).String(); got != `record 3 at "root/a": late` {
		t.Error(got)
	}
}
