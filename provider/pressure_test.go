package provider

import (
	"testing"

	"github.com/tipstaff/tipstaff"
)

// The codes of what a provider does to its callers are known where failures are explained.
func TestPressureOfProviders(t *testing.T) {
	for code, want := range map[string]string{CodeRateLimited: "limit", CodeUnavailable: "overload", CodeAuth: "access", CodeRejected: "", CodeOverflow: "", CodeProtocol: ""} {
		if got := tipstaff.PressureOf(code); got != want {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
}
