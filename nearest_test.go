package tipstaff

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"command", "comment", "url", "id"}
	for name, want := range map[string]string{
		"comand": "command", "commant": "command", "coment": "comment", "uri": "url", "rl": "url", "": "", "x": "", strings.Repeat("command", 1000): "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%.20q is near %q, want %q", name, got, want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"command", "comment"}
	if got := DidYouMean("coment", known); got != "; did you mean comment?" {
		t.Error(got)
	}
	if got := DidYouMean("url", known); got != "" {
		t.Error(got)
	}
}
