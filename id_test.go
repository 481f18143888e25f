package tipstaff

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestIDsAscend(t *testing.T) {
	var last string
	for range 1000 {
		id := NewID(dawn)
		if s := id.String(); s <= last {
			t.Fatalf("%s after %s", s, last)
		} else {
			last = s
		}
		if !id.Time().Equal(dawn) {
			t.Fatalf("made at %v", id.Time())
		}
	}
	if later := NewID(dawn.Add(time.Millisecond)); later.String() <= last {
		t.Errorf("%s after %s", later, last)
	}
}

func TestParseIDTakesTheCanonicalFormAlone(t *testing.T) {
	good := NewID(dawn).String()
	if id, err := ParseID(good); err != nil || id.String() != good {
		t.Errorf("%s: %v, %v", good, id, err)
	}
	for _, bad := range []string{"", "..", "../x", strings.ToLower(good), good[1:], good + "0", "8" + good[1:], "@",
		good[:25] + "O", good[:25] + "I", good[:25] + "L", good[:25] + "U", " " + good[1:]} {
		if _, err := ParseID(bad); CodeOf(err) != InvalidArgument {
			t.Errorf("ParseID(%q): %v", bad, err)
		}
	}
}

func TestIDInJSON(t *testing.T) {
	type holder struct {
		Run    ID `json:"run"`
		Parent ID `json:"parent,omitzero"`
	}
	in := holder{Run: NewID(dawn)}
	b, err := json.Marshal(in)
	if err != nil || string(b) != `{"run":"`+in.Run.String()+`"}` {
		t.Errorf("%s, %v", b, err)
	}
	var out holder
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Errorf("%v, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"run":""}`), &out); err != nil || !out.Run.IsZero() {
		t.Errorf("%v, %v", out, err)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("01JCQ8R4T5V6W7X8Y9Z0A1B2C3")
	f.Add("01jcq8r4t5v6w7x8y9z0a1b2c3")
	f.Add("7ZZZZZZZZZZZZZZZZZZZZZZZZZ")
	f.Add("80000000000000000000000000")
	f.Add("00000000000000000000000000")
	f.Add("../../../../../../../../ab")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			if !id.IsZero() {
				t.Errorf("ParseID(%q) = %v beside %v", s, id, err)
			}
			return
		}
		if len(s) != 26 || strings.Trim(s, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
			t.Errorf("%q was taken for an id", s)
		}
		if got := id.String(); got != s && !id.IsZero() {
			t.Errorf("ParseID(%q).String() = %q", s, got)
		}
	})
}
