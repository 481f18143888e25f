package workspace

import (
	"testing"

	"github.com/tipstaff/tipstaff"
)

func TestWhatIsKeptForAUserHasAFolder(t *testing.T) {
	for _, c := range []struct{ own, state, home, want string }{
		{"/own", "/state", "/home/a", "/own"},
		{"relative", "/state", "/home/a", "/state/tipstaff"},
		{"", "/state", "/home/a", "/state/tipstaff"},
		{"", "", "/home/a", "/home/a/.local/state/tipstaff"},
		{"", "relative", "/home/a", "/home/a/.local/state/tipstaff"},
		{"", "", "relative", ""},
		{"", "", "", ""},
	} {
		vars := map[string]string{"TIPSTAFF_STATE": c.own, "XDG_STATE_HOME": c.state, "HOME": c.home}
		got, err := StateDir(func(name string) string { return vars[name] })
		if got != c.want || (tipstaff.CodeOf(err) == tipstaff.StateUnavailable) != (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
