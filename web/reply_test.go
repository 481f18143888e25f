package web

import (
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// Every code of the closed list has a status here.
func TestEveryCodeHasAStatus(t *testing.T) {
	text, err := os.ReadFile("../error.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`Code = "([a-z_]+)"`).FindAllSubmatch(text, -1)
	if len(codes) < 60 {
		t.Fatalf("error.go has %d codes", len(codes))
	}
	for _, code := range codes {
		if status := statusOf[tipstaff.Code(code[1])]; http.StatusText(status) == "" || status < 400 {
			t.Errorf("%s is told as %d", code[1], status)
		}
	}
}
