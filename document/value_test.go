package document

import (
	"bytes"
	"testing"

	"github.com/gowebpki/jcs"
)

// FuzzPlainForm: the short way to RFC 8785 leads where the long one does, or says
// that it does not.
func FuzzPlainForm(f *testing.F) {
	for _, s := range []string{`{"b":[1,-20,0],"a":{"z":true,"y":null}}`, `"é"`, `"a\"b"`, `{"a":1,"a":2}`, `-0`, `1e3`, `1.50`, `123456789012345678`, `{"B":1,"a":2,"":3}`, `"<&>"`, "\"\x7f\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		v, problem := Read(src, 1<<20)
		if problem != nil {
			return
		}
		got, ok := v.appendPlain(nil)
		if !ok {
			return
		}
		var b bytes.Buffer
		v.AppendJSON(&b)
		want, err := jcs.Transform(b.Bytes())
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s became %s, not %s (%v)", src, got, want, err)
		}
	})
}

func TestPlainFormIsTheUsualOne(t *testing.T) {
	v, problem := Read([]byte(`{"path":"notes/today.txt","depth":2,"deep":[{"b":true,"a":null}]}`), 1<<20)
	if problem != nil {
		t.Fatal(problem)
	}
	got, ok := v.appendPlain(nil)
	if want := `{"deep":[{"a":null,"b":true}],"depth":2,"path":"notes/today.txt"}`; !ok || string(got) != want {
		t.Errorf("%s %v", got, ok)
	}
}
