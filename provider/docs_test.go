package provider

import (
	"os"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/provider/file"
)

func TestPageNamesTheCodes(t *testing.T) {
	page, err := os.ReadFile("../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{CodeAuth, CodeRejected, CodeOverflow, CodeRateLimited,
		CodeTruncated, CodeUnavailable, CodeProtocol, file.CodeExhausted} {
		if !strings.Contains(string(page), "| `"+code+"` |") {
			t.Errorf("docs/models.md does not list %s", code)
		}
	}
}
