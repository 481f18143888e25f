package tipstaff_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

func TestTokensTellCallers(t *testing.T) {
	tokens, err := tipstaff.NewTokens(
		tipstaff.Token{User: "alice", Secret: "the-secret-of-alice"},
		tipstaff.Token{User: "bob", Secret: "the-secret-of-bob--", Scopes: []string{tipstaff.ScopeRead}},
	)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tokens.Bearer("grpc", "the-secret-of-alice")
	if err != nil || c.User != "alice" || c.Principal != "token:alice" || c.Surface != "grpc" || !slices.Equal(c.Scopes, tipstaff.DefaultScopes()) {
		t.Errorf("alice is %+v", c)
	}
	c.Scopes[0] = tipstaff.ScopeAdmin
	if again, _ := tokens.Bearer("grpc", "the-secret-of-alice"); again.SeesAll() {
		t.Error("who was told of a token has changed it")
	}
	if c, err := tokens.Bearer("http", "the-secret-of-bob--"); err != nil || !c.May(tipstaff.ScopeRead) || c.May(tipstaff.ScopeRun) || c.SeesAll() {
		t.Errorf("bob is %+v", c)
	}
	for _, secret := range []string{"", "the-secret-of-alic", "the-secret-of-alice ", "alice"} {
		if c, err := tokens.Bearer("grpc", secret); tipstaff.CodeOf(err) != tipstaff.Unauthenticated || c.User != "" {
			t.Errorf("%q is taken for %+v", secret, c)
		}
	}
}

// Whoever is not let in is told what is wrong with the token.
func TestWhyATokenIsRefused(t *testing.T) {
	now := time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)
	const old, expired = "the-secret-of-yesterday", "the-secret-of-last-week"
	tokens, err := tipstaff.NewTokens(tipstaff.Token{User: "alice", Secret: old}, tipstaff.Token{User: "bob", Secret: "the-secret-that-stays"})
	if err == nil {
		err = tokens.Replace(tipstaff.Token{User: "bob", Secret: "the-secret-that-stays"}, tipstaff.Token{User: "carol", Secret: expired, Expires: now})
	}
	if err != nil {
		t.Fatal(err)
	}
	tokens.Now = func() time.Time { return now }
	for secret, want := range map[string]string{old: "was replaced", expired: "has expired, at 2026-11-19T12:00:00Z", "the-sec": "cut off", "the-secret-of-somebody-else": "another daemon or workspace", "the-secret-that-stays": ""} {
		_, err := tokens.Bearer("http", secret)
		var told *tipstaff.Error
		if errors.As(err, &told) != (want != "") || want != "" && (told.Code != tipstaff.Unauthenticated || !strings.Contains(told.Message, want) || told.Hint == "") {
			t.Errorf("%s: %v", secret, err)
		}
	}
	if tokens.BearersOf("http", "carol") != nil || len(tokens.BearersOf("http", "bob")) != 1 {
		t.Error("sessions outlive their token, or do not live as long")
	}
	tokens.Now = func() time.Time { return now.Add(-time.Second) }
	if _, err := tokens.Bearer("http", expired); err != nil {
		t.Errorf("a second before: %v", err)
	}
}

func TestTokensThatTellNobodyApart(t *testing.T) {
	for name, tokens := range map[string][]tipstaff.Token{
		"short":     {{User: "a", Secret: "short"}},
		"none":      {{User: "a"}},
		"one twice": {{User: "a", Secret: "0123456789abcdef"}, {User: "b", Secret: "0123456789abcdef"}},
	} {
		if _, err := tipstaff.NewTokens(tokens...); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCallers(t *testing.T) {
	for _, c := range []struct {
		caller tipstaff.Caller
		run    bool // may
		all    bool // sees
		bob    bool // may act as
	}{
		{tipstaff.Caller{}, false, false, false},
		{tipstaff.Caller{Surface: "mcp"}, false, false, false},
		{tipstaff.Caller{Surface: "cli", User: "local"}, true, true, false},
		{tipstaff.Caller{Surface: "grpc", User: "alice", Scopes: tipstaff.DefaultScopes()}, true, false, false},
		{tipstaff.Caller{Surface: "grpc", User: "alice", Scopes: []string{tipstaff.ScopeAdmin}}, true, true, false},
		{tipstaff.Caller{Surface: "grpc", User: "alice", Scopes: []string{tipstaff.ScopeActAs}}, false, false, true},
	} {
		as, err := c.caller.ActingAs("bob")
		if c.caller.May(tipstaff.ScopeRun) != c.run || c.caller.SeesAll() != c.all || (err == nil) != c.bob || c.bob && (as.User != "bob" || as.Principal != c.caller.Principal) {
			t.Errorf("%+v: %t, %t, %v", c.caller, c.caller.May(tipstaff.ScopeRun), c.caller.SeesAll(), err)
		}
		if own, err := c.caller.ActingAs(c.caller.User); err != nil || own.User != c.caller.User {
			t.Errorf("%+v may not be itself: %v", c.caller, err)
		}
	}
}
