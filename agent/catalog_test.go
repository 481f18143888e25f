package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/tool"
)

func TestACatalogIsPutInOrderAndPinned(t *testing.T) {
	b, a := aTool("ops/b", "read"), aTool("ops/a", "read")
	a.URI, b.URI = "", ""
	box := &toolbox{tools: []agent.Tool{b, a}}
	cfg := configured(box, call("ops__a", `{}`), say("Done."))
	events := run(t, cfg, nil)
	if endOf(events) != "" || !slices.Equal(box.called(), []string{"a"}) {
		t.Errorf("%s", listed(events))
	}
	var offered []string
	for _, o := range cfg.Model.(*model).requests[0].Tools {
		offered = append(offered, o.Name)
	}
	if !slices.Equal(offered, []string{"ops__a", "ops__b"}) {
		t.Errorf("offered were %v", offered)
	}
	if uri := box.calls[0].URI; !strings.HasPrefix(uri, "mcp://ops/a@sha256:") {
		t.Errorf("it was called as %s", uri)
	}
}

func TestACatalogThatCannotBeUsedEndsTheTurn(t *testing.T) {
	twice := &toolbox{tools: []agent.Tool{aTool("ops/a"), aTool("ops/a")}}
	if end := endOf(run(t, configured(twice, say("Not reached.")), nil)); end != string(agent.ConfigInvalid) {
		t.Errorf("ended with %q", end)
	}
	synctest.Test(t, func(t *testing.T) {
		cfg := configured(nil, say("Not reached."))
		cfg.Tools = &unreachable{}
		if end := endOf(run(t, cfg, nil)); end != tool.CodeUnavailable {
			t.Errorf("ended with %q", end)
		}
	})
}

type unreachable struct{ toolbox }

func (*unreachable) Catalog(context.Context) (*agent.Catalog, error) {
	return nil, errors.New("no route to host")
}
