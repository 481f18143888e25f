package tool

import (
	"fmt"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// TestClassOfHints goes through every combination of the three hints that matter:
// absent, false, true.
func TestClassOfHints(t *testing.T) {
	const none = flow.Class("")
	values := []string{"", "false", "true"}
	// want[readOnly][idempotent][destructive]
	want := [3][3][3]flow.Class{
		{ // readOnlyHint absent
			{none, none, flow.Once},
			{flow.Once, flow.Once, flow.Once},
			{flow.Idempotent, flow.Idempotent, flow.Idempotent},
		},
		{ // readOnlyHint false
			{flow.Once, flow.Once, flow.Once},
			{flow.Once, flow.Once, flow.Once},
			{flow.Idempotent, flow.Idempotent, flow.Idempotent},
		},
		{ // readOnlyHint true
			{flow.Read, flow.Read, flow.Once},
			{flow.Read, flow.Read, flow.Once},
			{flow.Read, flow.Read, flow.Once},
		},
	}
	for r, readOnly := range values {
		for i, idempotent := range values {
			for d, destructive := range values {
				text, sep := "{", ""
				for name, v := range map[string]string{"readOnlyHint": readOnly, "idempotentHint": idempotent, "destructiveHint": destructive} {
					if v != "" {
						text += fmt.Sprintf("%s%q:%s", sep, name, v)
						sep = ","
					}
				}
				text += "}"
				h, err := parseHints([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				if got := h.class(); got != want[r][i][d] {
					t.Errorf("%s: got %q, want %q", text, got, want[r][i][d])
				}
			}
		}
	}
}

func TestStricterOfManifestAndHintsHolds(t *testing.T) {
	for _, c := range []struct{ declared, hinted, want flow.Class }{
		{"", "", flow.Once},
		{flow.Read, "", flow.Read},
		{flow.Idempotent, "", flow.Idempotent},
		{flow.Once, "", flow.Once},
		{"", flow.Read, flow.Read},
		{"", flow.Idempotent, flow.Idempotent},
		{"", flow.Once, flow.Once},
		{flow.Read, flow.Once, flow.Once},
		{flow.Read, flow.Idempotent, flow.Idempotent},
		{flow.Idempotent, flow.Read, flow.Idempotent},
		{flow.Once, flow.Read, flow.Once},
		{flow.Once, flow.Idempotent, flow.Once},
	} {
		if got := effective(c.declared, c.hinted); got != c.want {
			t.Errorf("manifest %q, hints %q: got %q, want %q", c.declared, c.hinted, got, c.want)
		}
	}
}

func TestHintsOfAnotherTypeAreRefused(t *testing.T) {
	for _, text := range []string{`{"readOnlyHint":"true"}`, `[]`, `{"destructiveHint":1}`} {
		if _, err := parseHints([]byte(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}
