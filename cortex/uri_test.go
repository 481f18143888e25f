package cortex

import (
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 123456789, time.UTC)

func TestURINamesItsRecord(t *testing.T) {
	u := NewURI("fact", noon, 77)
	// 1794744000123 ms in the first ten digits of base 32, 77 = 2·32 + 13 in the last.
	if want := "cortex://fact/01M7FH87KV000000000000002D"; u.String() != want {
		t.Errorf("%s, want %s", u, want)
	}
	if u.Seq() != 77 || !u.ID.Time().Equal(noon.Truncate(time.Millisecond)) {
		t.Errorf("record %d at %s", u.Seq(), u.ID.Time())
	}
	parsed, err := ParseURI(u.String())
	if err != nil || parsed != u {
		t.Errorf("%v parses as %v: %v", u, parsed, err)
	}
}

func TestURIsAscendWithTheLog(t *testing.T) {
	a, b, c := NewURI("fact", noon, 9), NewURI("fact", noon, 10), NewURI("fact", noon.Add(time.Millisecond), 11)
	if a.String() >= b.String() || b.String() >= c.String() {
		t.Errorf("%s, %s, %s", a, b, c)
	}
}

func TestForeignIDsHaveNoRecord(t *testing.T) {
	for _, id := range []string{"01JCQ8R4T5V6W7X8Y9Z0A1B2C3", "01JCQ8R4T5000G000000000001"} {
		u, err := ParseURI("cortex://fact/" + id)
		if err != nil || u.Seq() != 0 {
			t.Errorf("%s is record %d: %v", id, u.Seq(), err)
		}
	}
}

var badURIs = []string{
	"", "cortex://", "cortex://fact", "cortex://fact/", "fact/01JCQ8R4T5000000000000000A", "cortex://Fact/01JCQ8R4T5000000000000000A",
	"cortex://dream/01JCQ8R4T5000000000000000A", "cortex://fact/01jcq8r4t5000000000000000a", "cortex://fact/01JCQ8R4T5000000000000000A/",
	"cortex://fact/01JCQ8R4T500000000000000A", " cortex://fact/01JCQ8R4T5000000000000000A", "cortex://fact/00000000000000000000000000",
}

func TestBadURIs(t *testing.T) {
	for _, s := range badURIs {
		if u, err := ParseURI(s); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("%q is %v: %v", s, u, err)
		}
	}
}

func FuzzParseURI(f *testing.F) {
	for _, s := range badURIs {
		f.Add(s)
	}
	for _, typ := range tipstaff.MemoryTypes() {
		f.Add(NewURI(typ, noon, 1<<40).String())
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := ParseURI(s)
		if err == nil && u.String() != s {
			t.Errorf("%q was read as %s", s, u)
		}
		if seq := u.Seq(); err == nil && seq > 0 && NewURI(u.Type, u.ID.Time(), seq) != u {
			t.Errorf("record %d does not make %s", seq, s)
		}
	})
}
