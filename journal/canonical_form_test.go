package journal

import (
	"bytes"
	"testing"

	"github.com/gowebpki/jcs"
)

func TestWhatIsCanonicalAlready(t *testing.T) {
	for _, s := range []string{`{}`, `[]`, `""`, `0`, `-7`, `null`, `[true,false,null]`, `{"a":1,"b":{"a":[1,"x"]}}`, `{"A":1,"a":2}`, `"é€😀"`, `"a\"b\\c\n\t"`, `{"a b":1}`} {
		if !IsCanonical([]byte(s)) {
			t.Errorf("%s is not taken as it is", s)
		}
	}
	for _, s := range []string{``, ` {}`, `{} `, `{"b":1,"a":2}`, `{"a":1,"a":1}`, `{"a": 1}`, `-0`, `01`, `1.0`, `1e3`, `1234567890123456`, `"\u0041"`, `"\/"`, `"a`, `[1,]`, `{"a":}`,
		`{"é":1}`, "\"\xff\"", `nul`, `{"a":1}}`, `{1:1}`, "\"\x01\"", `1x`} {
		if IsCanonical([]byte(s)) {
			t.Errorf("%q is taken as it is", s)
		}
	}
}

// FuzzIsCanonical: what is taken as it is, the canonicaliser leaves as it is.
func FuzzIsCanonical(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[true,"x\n"]}`, `{"b":1,"a":2}`, `{"\u0061":1}`, `-0`, `[1.0]`, `"\\u0041"`, `{"":{}}`, `999999999999999`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !IsCanonical(b) {
			return
		}
		if err := checkJSON(b); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if want, err := jcs.Transform(b); err != nil || !bytes.Equal(want, b) {
			t.Fatalf("%q becomes %q (%v)", b, want, err)
		}
	})
}
