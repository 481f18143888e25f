package workspace

import (
	"os"
	"path/filepath"
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

func TestATokenBelongsToAFolderWhateverItIsCalled(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	env := func(name string) string { return map[string]string{"TIPSTAFF_STATE": "/state"}[name] }
	one, err := TokenFile(dir, env)
	if err != nil || filepath.Dir(one) != "/state/serve.token" {
		t.Fatalf("it is %s, %v", one, err)
	}
	if same, _ := TokenFile(link, env); same != one {
		t.Errorf("by a link it is %s, not %s", same, one)
	}
	if other, _ := TokenFile(t.TempDir(), env); other == one {
		t.Error("two folders have one token")
	}
	if _, err := TokenFile(dir, func(string) string { return "" }); tipstaff.CodeOf(err) != tipstaff.StateUnavailable {
		t.Errorf("without a folder: %v", err)
	}
}
