package tipstaff_test

import (
	"encoding/json"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func TestBillionths(t *testing.T) {
	for n, want := range map[tipstaff.Billionths]string{
		0: "0.000000000", 1: "0.000000001", 700_000_000: "0.700000000", 1_000_000_000: "1.000000000", -25: "-0.000000025", 12_000_000_034: "12.000000034",
	} {
		if got := n.String(); got != want {
			t.Errorf("%d is %s, want %s", int64(n), got, want)
		}
	}
	if got, err := json.Marshal(tipstaff.MemoryWeights{R: 1, V: 2}); err != nil || string(got) != `{"R":1,"A":0,"C":0,"D":0,"V":2}` {
		t.Errorf("%s: %v", got, err)
	}
}
