package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

func TestFieldsOfDeliveryAreListed(t *testing.T) {
	text := section(t, "delivery.md", "## The block")
	listed, real := firstColumn(text), fieldNames(document.Deliver{})
	slices.Sort(listed)
	slices.Sort(real)
	if !slices.Equal(listed, real) {
		t.Errorf("delivery.md lists %v, there are %v", listed, real)
	}
	for _, name := range fieldNames(document.DeliverCheck{}) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("delivery.md does not mention %s of a check", name)
		}
	}
}

func TestWhatAWorktreeIsGivenIsListed(t *testing.T) {
	listed, real := firstColumn(section(t, "delivery.md", "## What a worktree is given")), fieldNames(document.Preparation{})
	slices.Sort(listed)
	slices.Sort(real)
	if !slices.Equal(listed, real) {
		t.Errorf("delivery.md lists %v, there are %v", listed, real)
	}
}

func TestActionsOfDeliveryAreListed(t *testing.T) {
	text := section(t, "delivery.md", "## The gate")
	if listed := firstColumn(text); !slices.Equal(listed, tipstaff.DeliveryActions) {
		t.Errorf("delivery.md lists %v, there are %v", listed, tipstaff.DeliveryActions)
	}
	for _, code := range constants(t, "..", regexp.MustCompile(`^(Block|Delivered)[A-Z]`)) {
		if !strings.Contains(text, "`"+code+"`") {
			t.Errorf("delivery.md does not mention %s", code)
		}
	}
}
