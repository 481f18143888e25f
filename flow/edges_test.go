package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestJSONIsCompact(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{json.RawMessage(" { \"a\" : 1 } "), `{"a":1}`},
		{json.RawMessage(nil), `null`},
		{map[string]string{"b": "<&>", "a": ""}, `{"a":"","b":"<&>"}`},
	} {
		if got := string(JSON(c.v)); got != c.want {
			t.Errorf("%v: %s, want %s", c.v, got, c.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("what is no JSON was taken")
		}
	}()
	JSON(json.RawMessage("{"))
}

// The short way and the long way to a digest give the same.
func TestDigestsOfEveryLength(t *testing.T) {
	for n := range 600 {
		data := []byte(strings.Repeat("x", n))
		sum := sha256.Sum256(append([]byte("kind\x00"), data...))
		if got, want := digest("kind", data), "sha256:"+hex.EncodeToString(sum[:]); got != want {
			t.Fatalf("%d bytes: %s, want %s", n, got, want)
		}
	}
}

// A gate's digest is that of the canonical form; a subject of null is none.
func TestGateDigestIsCanonical(t *testing.T) {
	gate := func(subject string) string {
		return GateDigest(Gate{Kind: "question", Question: "Go?", Subject: []byte(subject), Actions: []string{"a"}, Deny: "a"})
	}
	if gate(`{"b":1,"a":1.0}`) != gate(`{"a":1,"b":1}`) || gate("null") != gate("") || gate(`{}`) == gate("") {
		t.Error("the form of a subject counts, or that there is one does not")
	}
}

func TestSegments(t *testing.T) {
	for _, s := range []string{"a", "z", "A", "Z", "0", "9", "._@#-", strings.Repeat("a", maxSegment)} {
		if fault := segmentFault(s); fault != "" {
			t.Errorf("%q: %s", s, fault)
		}
	}
	for _, s := range []string{"", "`", "{", "@[", "/", ":", "a b", "é", strings.Repeat("a", maxSegment+1)} {
		if segmentFault(s) == "" {
			t.Errorf("%q is taken", s)
		}
	}
	for s, want := range map[string]bool{"now#": false, "now#1x": false, "now#9": true, "bound#0": true, "in_doubt#x": true} {
		if reserved(s) != want {
			t.Errorf("%q is reserved: %v", s, !want)
		}
	}
	for path, want := range map[string]string{"root/a/b": "root/a", "root": "", "": "", "/a": ""} {
		if got := parent(path); got != want {
			t.Errorf("the parent of %q is %q", path, got)
		}
	}
}

func TestErrorsSayWhatTheyKnow(t *testing.T) {
	for want, err := range map[string]error{
		"timeout":                       &Error{Code: "timeout"},
		"bound_exceeded (tokens): more": &Error{Code: "bound_exceeded", Bound: "tokens", Message: "more"},
		`the program does not fit its history at "a": x is recorded and no longer asked for`: &NonDeterminism{Path: "a", Recorded: "x"},
		`the program does not fit its history at "a": recorded nothing, asked for y`:         &NonDeterminism{Path: "a", Asked: "y"},
		`the program does not fit its history at "a": x was recorded with another input: /b: recorded 1, asked for 2`: &NonDeterminism{Path: "a", Recorded: "x sha256:1", Asked: "x sha256:2",
			Was: json.RawMessage(`{"a":0,"b":1}`), Input: json.RawMessage(`{"a":0,"b":2}`)},
		`the program does not fit its history at "a": x is recorded and no longer asked for; y at "b" would be new, with the same input`: &NonDeterminism{Path: "a", Instead: "b", Recorded: "x sha256:1", Asked: "y sha256:2",
			Was: json.RawMessage(`1`), Input: json.RawMessage(`1`)},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

func TestNamesOfAmountsAreSorted(t *testing.T) {
	if got := (Use{"c": 1, "a": 1, "b": 1}).appendNames([]string{"z"}); !slices.Equal(got, []string{"z", "a", "b", "c"}) {
		t.Error(got)
	}
}

// A value stands compact in its record, and the program is given the same.
func TestValuesAreOneLine(t *testing.T) {
	for value, want := range map[string]string{"": "null", "1": "1", `{"a": 1}`: `{"a":1}`, "{\n\"a\": 1}": `{"a":1}`, "[1,\r2]": "[1,2]", "\r1": "1", "\n1": "1"} {
		if got, err := oneLine(json.RawMessage(value)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v; want %q", value, got, err, want)
		}
	}
	for _, value := range []string{"{", "{\n", "1 2", "\"\xff\""} {
		if got, err := oneLine(json.RawMessage(value)); err == nil {
			t.Errorf("%q is taken: %q", value, got)
		}
	}
}

// A failure is recorded with what it has, and read back as it was.
func TestFailuresAreRecordedWhole(t *testing.T) {
	for want, e := range map[string]Error{
		`{"code":"x"}`: {Code: "x"},
		`{"code":"x","message":"m","bound":"b","detail":[1],"retry":true,"not_sent":true,"answered":true,"after_ms":1500}`: {Code: "x", Message: "m", Bound: "b",
			Detail: json.RawMessage("[1]"), Retry: true, NotSent: true, Answered: true, After: 1500 * time.Millisecond},
		`{"code":"x","not_sent":true}`: {Code: "x", NotSent: true},
	} {
		if got := string(JSON(&e)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		var read Error
		if err := json.Unmarshal([]byte(want), &read); err != nil {
			t.Fatal(err)
		}
		if read.Error() != e.Error() || read.After != e.After || string(JSON(&read)) != want {
			t.Errorf("read back: %+v, want %+v", read, e)
		}
	}
}

func TestTheLongestPath(t *testing.T) {
	longest := strings.Repeat("a", maxPath-2) + "/b"
	if fault := pathFault(longest, "b"); fault != "" {
		t.Errorf("%d bytes: %s", len(longest), fault)
	}
	if pathFault("a"+longest, "b") == "" {
		t.Error("a longer path is taken")
	}
}

// However often a call has failed, it is tried again within a year.
func TestTheLongestBackoff(t *testing.T) {
	do := &doing{Call: Call{Retry: Retry{Backoff: time.Hour}}}
	if got := do.backoff(500, 0); got != 365*24*time.Hour {
		t.Errorf("after 500 failures: %v", got)
	}
	do.Retry.Jitter = true
	delays := map[time.Duration]bool{}
	for range 100 {
		got := do.backoff(2, time.Minute)
		delays[got] = true
		if got < time.Minute || got > 2*time.Hour {
			t.Errorf("with jitter: %v", got)
		}
	}
	if len(delays) < 2 {
		t.Errorf("jitter gives always the same: %v", delays)
	}
}

// A program may not know what an earlier call was given.
func TestEarlierDoubtWithoutInput(t *testing.T) {
	if g := EarlierDoubt(Attempt{Path: "a", Name: "post", N: 1}, nil); !json.Valid(g.Subject) {
		t.Errorf("the subject is %s", g.Subject)
	}
}
