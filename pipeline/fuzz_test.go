package pipeline

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzCheck: whatever is read either has problems, in order and with a place, or is
// a pipeline that can be frozen, read back and drawn.
func FuzzCheck(f *testing.F) {
	for _, src := range []string{reviewLoop, reviewLoopJSON, seedShaped, everything, drawn, drawnWithDependencies} {
		f.Add([]byte(src))
	}
	for _, test := range faulty {
		src, _ := marked(test.src)
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		p, problems := Check("p", src, workspace())
		if (p == nil) != (len(problems) > 0) {
			t.Fatalf("%v %+v", p, problems)
		}
		for i, q := range problems {
			if q.Code == "" || q.Message == "" || q.Line < 1 || q.Column < 1 || !utf8.ValidString(q.Message) {
				t.Fatalf("%+v", q)
			}
			if i > 0 && q.Line < problems[i-1].Line {
				t.Fatalf("%+v comes after %+v", q, problems[i-1])
			}
		}
		if p == nil {
			return
		}
		frozen, err := Load(p.Canonical())
		if err != nil {
			t.Fatalf("%s: %v", p.Canonical(), err)
		}
		if diff := cmp.Diff(p, frozen, samePipeline); diff != "" {
			t.Fatal(diff)
		}
		for _, format := range []string{GraphMermaid, GraphDOT} {
			a, _ := p.Graph(format, nil)
			if b, _ := frozen.Graph(format, nil); a != b || !utf8.ValidString(a) {
				t.Fatalf("%s\n%s", a, b)
			}
		}
		NewEnvelope(p, Input{}).DataDigest()
	})
}

// FuzzValues: what is decoded is normal already, and its encoding is decoded to the
// same and encoded to the same.
func FuzzValues(f *testing.F) {
	for _, src := range []string{
		`{"b":[1,1.0,-0.0,1e400,9007199254740993,0.1],"a":{"":null,"é\u0000\n":true}}`, `"\ud83d\ude00"`, `"\ud800"`, `[[[[]]]]`, `{"a":1,"a":2}`,
		`123456789012345678901234567890`, `1E+2`, `-0`, ` [ ] `, "\"\xff\"", `{"a":[{"b":[{"c":1e-400}]}]}`,
	} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		v, err := Decode(src)
		if err != nil {
			return
		}
		if normal, err := Normalize(v); err != nil || !reflect.DeepEqual(normal, v) {
			t.Fatalf("%s: %#v is not normal (%v)", src, v, err)
		}
		raw := EncodeValue(v)
		back, err := Decode(raw)
		if err != nil || !reflect.DeepEqual(back, v) || !Equal(back, v) {
			t.Fatalf("%s: %#v became %#v (%v)", src, v, back, err)
		}
		if again := EncodeValue(back); !bytes.Equal(again, raw) {
			t.Fatalf("%s became %s", raw, again)
		}
		std := json.NewDecoder(bytes.NewReader(src))
		std.UseNumber()
		var theirs any
		if err := std.Decode(&theirs); err != nil {
			t.Fatalf("%s is JSON to us alone: %v", src, err)
		}
		if normal, err := Normalize(theirs); err != nil || !reflect.DeepEqual(normal, v) {
			t.Fatalf("%s is %#v to others (%v)", src, normal, err)
		}
		if c := cloneValue(v); !reflect.DeepEqual(c, v) {
			t.Fatalf("%#v was cloned as %#v", v, c)
		}
	})
}

// FuzzEqual: equality is an equivalence as far as two values can show it, and agrees
// with the encoding.
func FuzzEqual(f *testing.F) {
	for _, pair := range [][2]string{
		{`1`, `1.0`}, {`9007199254740993`, `9007199254740992.0`}, {`[1,{"a":null}]`, `[1.0,{"a":null}]`}, {`null`, `{}`}, {`"1"`, `1`},
		{`1e400`, `10e399`}, {`0`, `-0.0`}, {`1e99999999999999999999`, `1`}, {`0e99999999999999999999`, `0`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, x, y []byte) {
		a, err := Decode(x)
		if err != nil {
			return
		}
		if !Equal(a, a) {
			t.Fatalf("%s is not equal to itself", x)
		}
		b, err := Decode(y)
		if err != nil {
			return
		}
		if Equal(a, b) != Equal(b, a) {
			t.Fatalf("%s and %s are equal one way", x, y)
		}
		if bytes.Equal(EncodeValue(a), EncodeValue(b)) && !Equal(a, b) {
			t.Fatalf("%s and %s have one encoding", x, y)
		}
	})
}

// FuzzTemplate: what is accepted can be filled in or says why not, and text without
// a dollar sign stays as it is.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		"plain", "${input}", "a ${outputs.a.m} b", "$${x}", "${{'a': '}'}.a}", "${'''}'''}", `${r"\"}`, "${input // }\n}", "${", "$$${", "${output.nothing}",
		"${metadata.big}", "${[1,2].map(x, x*2)}", "${b'x'}", "${{1:2}}",
	} {
		f.Add(s)
	}
	s := stageScope(f)
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := compileText(text)
		if err != nil {
			return
		}
		v, err := fill(parts, s)
		if err != nil {
			return
		}
		if utf8.ValidString(text) {
			if _, err := Normalize(v); err != nil {
				t.Fatalf("%q became %#v: %v", text, v, err)
			}
		}
		if !bytes.ContainsRune([]byte(text), '$') && v != text {
			t.Fatalf("%q became %#v", text, v)
		}
	})
}

// FuzzDecodeEnvelope: nothing is read that would be written in another way.
func FuzzDecodeEnvelope(f *testing.F) {
	f.Add(EncodeEnvelope(full(f)))
	f.Add(EncodeEnvelope(NewEnvelope(nil, Input{})))
	f.Add([]byte(`{"schema":1}`))
	f.Add([]byte(`{"schema":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := DecodeEnvelope(raw)
		if err != nil {
			return
		}
		if again := EncodeEnvelope(e); !bytes.Equal(again, raw) || e.Size() != len(raw) {
			t.Fatalf("%s\n%s", raw, again)
		}
		if again := EncodeEnvelope(e.Clone()); !bytes.Equal(again, raw) {
			t.Fatalf("the clone is stored as %s", again)
		}
	})
}
