package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "share", "man1")
	b := newBench(t)
	b.run(t, 0, "man", dir, "--json")
	var done manWritten
	if err := json.Unmarshal([]byte(b.out.String()), &done); err != nil {
		t.Fatal(err)
	}
	if len(done.Files) < 40 {
		t.Errorf("only %d pages", len(done.Files))
	}
	for _, file := range done.Files {
		page := read(t, file)
		command := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".1"), "-", " ")
		contains(t, file, page, " 1 \"2026-03-04\" \"tipstaff 1.2.3\" Tipstaff\n.SH NAME\n", ".SH SYNOPSIS\n.B "+command+"\n", ".SH DESCRIPTION\n", ".SH OPTIONS\n", ".SH SEE ALSO\n")
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.Contains(" TH SH PP TP B BR nf fi ", " "+strings.Fields(line[1:])[0]+" ") {
				t.Errorf("%s: %q is taken for a command", file, line)
			}
		}
	}
	contains(t, "the page of run", read(t, filepath.Join(dir, "tipstaff-run.1")), ".TP\n\\fB\\-\\-dry\\-run\\fR\n", ".TP\n\\fB\\-\\-input\\fR \\fI", "[OPTION]... FILE\n", ".BR tipstaff (1)\n")
	contains(t, "the page of tools", read(t, filepath.Join(dir, "tipstaff-tools.1")), ".B tipstaff tools\nCOMMAND\n", ".SH COMMANDS\n.TP\n.B call\n", ".BR tipstaff\\-tools\\-call (1),\n")
	for _, hidden := range []string{"tipstaff-exec.1", "tipstaff-help.1"} {
		if _, err := os.Stat(filepath.Join(dir, hidden)); err == nil {
			t.Errorf("there is a page %s", hidden)
		}
	}
	if len(b.opened) != 0 {
		t.Error("man opened the workspace")
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestManWithoutAFolderPrintsTheFirstPage(t *testing.T) {
	b := newBench(t)
	b.run(t, 0, "man")
	contains(t, "stdout", b.out.String(), ".TH \"TIPSTAFF\" 1 ", "\\fB\\-\\-version\\fR", "\\fB\\-\\-workspace\\fR \\fIstring\\fR\n", ".BR tipstaff\\-run (1),\n")
}

func TestManSaysWhereItCannotWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.run(t, 2, "man", file)
	contains(t, "stderr", b.err.String(), file+": not a directory")
}

// What a formatter would act on, or print as something else, is printed as it is written.
func TestManualPagesPrintWhatIsWritten(t *testing.T) {
	cmd := &cobra.Command{Use: "tipstaff", Short: `it's a "test"`, Long: ".gitignore comes first\n'tis a `word` with a \\ and ~/x^2 → y\n\n  kept  as it is\n\nname    in columns\nother   too", Example: "  tipstaff --x 'a b'\n  ...", Run: func(*cobra.Command, []string) {}}
	page := string(manPage(cmd, VersionInfo{Version: "0.1.0-rc"}))
	contains(t, "page", page,
		".TH \"TIPSTAFF\" 1 \"\" \"tipstaff 0.1.0\\-rc\" Tipstaff\n",
		"tipstaff \\- it\\(aqs a \\(dqtest\\(dq\n",
		".SH DESCRIPTION\n\\&.gitignore comes first\n\\(aqtis a \\(gaword\\(ga with a \\e and \\(ti/x\\(ha2 \\[u2192] y\n.PP\n.nf\n  kept  as it is\n.fi\n.PP\n.nf\nname    in columns\nother   too\n.fi\n",
		".SH EXAMPLES\n.nf\n  tipstaff \\-\\-x \\(aqa b\\(aq\n  ...\n.fi\n")
}
