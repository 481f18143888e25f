package tipstaff

import (
	"context"
	"testing"
)

func TestCallerTravelsInTheContext(t *testing.T) {
	ctx := WithCaller(context.Background(), Caller{Surface: "cli", User: "ada", Principal: "local:cli", Scopes: []string{"run"}})
	if got := CallerFrom(ctx); got.Surface != "cli" || got.User != "ada" || len(got.Scopes) != 1 {
		t.Errorf("%+v", got)
	}
	if got := CallerFrom(context.Background()); got.Surface != "mcp" || len(got.Scopes) != 0 || got.User != "" {
		t.Errorf("without a caller: %+v", got)
	}
}
