package document

import (
	"strings"
	"testing"
	"time"
)

func readFiles(t *testing.T, text string) (x Files, codes string) {
	t.Helper()
	v, ps := ReadAll([]byte("files: "+text), 1<<20)
	if v == nil {
		t.Fatal(ps)
	}
	into := struct {
		Files Files `doc:"files"`
	}{}
	f := FieldsOf(&ps, v, "")
	f.Dotted = true
	f.Decode(&into)
	f.End()
	var all []string
	for _, p := range ps.Public("x") {
		all = append(all, p.Code+" "+p.Path)
	}
	return into.Files, strings.Join(all, ", ")
}

func TestFilesSayWhereAndWithWhat(t *testing.T) {
	for text, want := range map[string]string{
		"checkout":                            "",
		"elsewhere":                           "field_invalid files",
		"3":                                   "field_type files",
		"{copy: [.env, 'certs/**']}":          "",
		"{copy: .env}":                        "field_type files.copy",
		"{copy: [/etc/passwd]}":               "field_invalid files.copy",
		"{copy: [../x]}":                      "field_invalid files.copy",
		"{link: [a/../../x]}":                 "field_invalid files.link",
		"{link: ['.GIT/hooks']}":              "field_invalid files.link",
		"{copy: ['a/.tipstaff/keys']}":        "field_invalid files.copy",
		"{copy: ['**']}":                      "field_invalid files.copy",
		"{copy: ['']}":                        "field_invalid files.copy",
		"{setup: [[npm, ci]]}":                "",
		"{setup: [npm ci]}":                   "field_type files.setup[0]",
		"{setup: [[]]}":                       "field_invalid files.setup[0]",
		"{setup: [['']]}":                     "field_invalid files.setup[0]",
		"{setup: [{run: [npm]}]}":             "",
		"{setup: [{run: []}]}":                "field_invalid files.setup[0]",
		"{setup: [{timeout: 5m}]}":            "field_missing files.setup[0].run",
		"{setup: [{run: [x], wait: 1}]}":      "field_unknown files.setup[0].wait",
		"{setup: [{run: [x], timeout: 48h}]}": "range files.setup[0].timeout",
		"{ports: 0}":                          "range files.ports",
		"{ports: 101}":                        "range files.ports",
		"{submodules: 'yes'}":                 "field_type files.submodules",
		"{lfs: 1}":                            "field_type files.lfs",
		"{}":                                  "",
	} {
		x, got := readFiles(t, text)
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if got == "" && strings.HasPrefix(text, "{") && x.Mode != FilesWorktree {
			t.Errorf("%s: %+v", text, x)
		}
	}
}

func TestPreparationsAddUp(t *testing.T) {
	own, _ := readFiles(t, "{copy: [a, b], setup: [[one]], teardown: [[stop, one]], ports: 1}")
	more, _ := readFiles(t, "{copy: [b, c], link: [d], setup: [{run: [two], timeout: 1m}], teardown: [[stop, two]], submodules: true}")
	p := own.Prepare.With(more.Prepare)
	if got := strings.Join(p.Copy, " "); got != "a b c" || strings.Join(p.Link, " ") != "d" || !p.Submodules || p.Ports != 1 {
		t.Errorf("%+v", p)
	}
	if len(p.Setup) != 2 || p.Setup[0].Run[0] != "one" || p.Setup[0].Limit() != DefaultSetupTimeout || p.Setup[1].Limit() != time.Minute || p.Teardown[0].Run[1] != "two" {
		t.Errorf("%+v", p)
	}
	if (Preparation{}).With(Preparation{}).IsZero() != true || p.IsZero() {
		t.Error("nothing is something")
	}
}
