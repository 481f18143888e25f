package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every claim of security.md names a test, and that test exists in the package that is
// named after it.
func TestSecurityClaimsAreTested(t *testing.T) {
	text, err := os.ReadFile("security.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("((?:`(?:Test|Fuzz)[A-Za-z0-9]+`(?:, )?)+) \\(`([a-z./]+)`\\)")
	claims := 0
	for _, found := range names.FindAllStringSubmatch(string(text), -1) {
		files, err := filepath.Glob(filepath.Join("..", found[2], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, f := range files {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(src)
		}
		for name := range strings.SplitSeq(found[1], ", ") {
			claims++
			if name = strings.Trim(name, "`"); !strings.Contains(all.String(), "\nfunc "+name+"(") {
				t.Errorf("%s has no %s", found[2], name)
			}
		}
	}
	if mentioned := len(regexp.MustCompile("`(Test|Fuzz)[A-Za-z0-9]+`").FindAllString(string(text), -1)); mentioned != claims || claims < 25 {
		t.Errorf("%d tests are named, %d with their package", mentioned, claims)
	}
}
