package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
)

func TestCanonicalKeepsValues(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1,"a":[true,null,"é"]}`: `{"a":[true,null,"é"],"b":1}`,
		`{"n":1.50}`:                  `{"n":1.5}`,
		`[1e2,-0,0.0,1E-7]`:           `[100,0,0,1e-7]`,
		`9007199254740992`:            `9007199254740992`,
		`0.1`:                         `0.1`,
		`{"content":""}`:              `{"content":""}`,
		`0e999999999999`:              `0`,
	} {
		got, err := canonical([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestNumberThatWouldChangeIsUnsafe(t *testing.T) {
	for _, in := range []string{`9007199254740993`, `[1,{"a":-9007199254740993}]`, `0.1000000000000000055511151231257827`, `1e400`, `-1e400`,
		`1e-400`, `1e-99999999999999999999`, `123456789012345678901234567890`, `3.14159265358979323846`, strings.Repeat("1", 400)} {
		_, err := canonical([]byte(in))
		if !errors.Is(err, errNumberUnsafe) {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestCanonicalRefusesWhatIsNotOneValue(t *testing.T) {
	for _, in := range []string{``, `{`, `{"a":1,"a":2}`, `1 2`, `{"a":}`, "\"\xff\"", `nul`, strings.Repeat("[", 100_000)} {
		if got, err := canonical([]byte(in)); err == nil {
			t.Errorf("%.40q became %.40q", in, got)
		}
	}
}

// FuzzCanonical: what is accepted is stable, is JSON, and has no number whose
// exact value differs from what was written.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[1.5,"x"]}`, `9007199254740993`, `1e-7`, `{"a":{"a":{}}}`, `0.30000000000000004`, `-0.0`, `"\u0000"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := canonical(in)
		if err != nil {
			return
		}
		twice, err := canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q → %q → %q, %v", in, once, twice, err)
		}
		a, b := numbers(t, in), numbers(t, once)
		if len(a) != len(b) {
			t.Fatalf("%q has %d numbers, %q has %d", in, len(a), once, len(b))
		}
		for text := range a {
			if !b[text] {
				t.Fatalf("%q: the value %s is not in %q", in, text, once)
			}
		}
	})
}

// numbers are the exact values of all numbers in a document that canonical takes.
// One that is written too long to be expanded says nothing, for it may be short in its
// canonical form.
func numbers(t *testing.T, doc []byte) map[string]bool {
	set := map[string]bool{}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return set
		}
		n, ok := token.(json.Number)
		if !ok {
			continue
		}
		if len(n) > 400 {
			t.Skip("a number is written too long")
		}
		if f, _ := n.Float64(); f == 0 { // whatever its exponent
			set["0"] = true
			continue
		}
		r, ok := new(big.Rat).SetString(n.String())
		if !ok {
			t.Fatalf("%s is not a number", n)
		}
		set[r.RatString()] = true
	}
}
