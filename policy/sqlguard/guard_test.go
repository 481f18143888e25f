package sqlguard

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/policy"
)

// sqlCase is a statement and what it does. Of a statement that writes, why has a
// part of the reason, so that it is not taken for writing by accident.
type sqlCase struct{ sql, access, why string }

func testSQL(t *testing.T, dialect string, cases []sqlCase) {
	t.Helper()
	if len(cases) < 60 {
		t.Errorf("%d statements, want 60", len(cases))
	}
	for _, c := range cases {
		t.Run(c.sql, func(t *testing.T) {
			f := findSQL(t, policy.GuardConfig{Dialect: dialect}, c.sql)
			facts := factsOf(t, f)
			if facts.Access != c.access || !strings.Contains(facts.Why, c.why) {
				t.Errorf("%s because %q, want %s because of %q", facts.Access, facts.Why, c.access, c.why)
			}
			if f.Name != "sql" || f.Class != c.access || f.Writes != (c.access == "write") {
				t.Errorf("finding %+v does not say %s", f, c.access)
			}
		})
	}
}

func findSQL(t testing.TB, c policy.GuardConfig, sql string) policy.Finding {
	t.Helper()
	c.Arg = "/sql"
	args, err := json.Marshal(map[string]string{"sql": sql})
	if err != nil {
		t.Fatal(err)
	}
	return sqlGuardOf(t, c).Find(args)
}

func sqlGuardOf(t testing.TB, c policy.GuardConfig) policy.Guard {
	t.Helper()
	g, err := newGuard(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func factsOf(t testing.TB, f policy.Finding) (facts sqlFacts) {
	t.Helper()
	if err := json.Unmarshal(f.Facts, &facts); err != nil {
		t.Fatal(err)
	}
	return facts
}

func TestSQLFacts(t *testing.T) {
	for _, c := range []struct {
		dialect, sql string
		want         sqlFacts
	}{
		{"postgres", `SELECT 1`, sqlFacts{"read", 1, []string{"select"}, []string{}, ""}},
		{"postgres", `SELECT * FROM a JOIN s."B" ON true, db.s.c`, sqlFacts{"read", 1, []string{"select"}, []string{"a", "s.B", "db.s.c"}, ""}},
		{"postgres", `SELECT * FROM a, A, "a"; TABLE b`, sqlFacts{"read", 2, []string{"select"}, []string{"a", "b"}, ""}},
		{"postgres", `SELECT (SELECT max(x) FROM b WHERE EXISTS (SELECT FROM c)) FROM a`, sqlFacts{"read", 1, []string{"select"}, []string{"b", "c", "a"}, ""}},

		// A query's name hides the table outside of it, not inside.
		{"postgres", `WITH u AS (SELECT * FROM u) SELECT * FROM u`, sqlFacts{"read", 1, []string{"select"}, []string{"u"}, ""}},
		{"postgres", `WITH u AS (SELECT 1) SELECT * FROM u`, sqlFacts{"read", 1, []string{"select"}, []string{}, ""}},
		{"postgres", `WITH RECURSIVE u AS (SELECT * FROM v), v AS (SELECT 1) SELECT * FROM u`, sqlFacts{"read", 1, []string{"select"}, []string{}, ""}},
		{"postgres", `WITH u AS (SELECT * FROM v), v AS (SELECT 1) SELECT * FROM s.u`, sqlFacts{"read", 1, []string{"select"}, []string{"v", "s.u"}, ""}},
		{"postgres", `SELECT * FROM (WITH u AS (SELECT 1) SELECT * FROM u) x, u`, sqlFacts{"read", 1, []string{"select"}, []string{"u"}, ""}},
		{"mysql", "WITH u AS (SELECT 1) SELECT * FROM U UNION SELECT * FROM `t`", sqlFacts{"read", 1, []string{"select"}, []string{"t"}, ""}},
		{"mysql", `SELECT * FROM (WITH u AS (SELECT 1) SELECT * FROM u) x, db.u`, sqlFacts{"read", 1, []string{"select"}, []string{"db.u"}, ""}},

		// What is written to is listed although a query has its name.
		{"postgres", `WITH u AS (SELECT 1) DELETE FROM u USING u AS v`, sqlFacts{"write", 1, []string{"delete", "select"}, []string{"u"}, "DELETE changes data"}},
		{"postgres", `WITH d AS (DELETE FROM a RETURNING *) INSERT INTO b SELECT * FROM d`,
			sqlFacts{"write", 1, []string{"insert", "delete", "select"}, []string{"a", "b", "d"}, "INSERT changes data"}},

		{"postgres", `EXPLAIN UPDATE t SET a = 1`, sqlFacts{"read", 1, []string{"explain", "update"}, []string{"t"}, ""}},
		{"postgres", `SHOW search_path`, sqlFacts{"read", 1, []string{"show"}, []string{}, ""}},
		{"postgres", `/* c */ DROP TABLE a; SELECT 1`, sqlFacts{"write", 2, []string{"drop", "select"}, []string{}, "DROP is not known to be without effects"}},
		{"mysql", `DESC db.t`, sqlFacts{"read", 1, []string{"describe"}, []string{"db.t"}, ""}},
		{"mysql", `REPLACE INTO t VALUES (1)`, sqlFacts{"write", 1, []string{"replace"}, []string{"t"}, "REPLACE changes data"}},
		{"trino", `SELECT * FROM c.s.t TABLESAMPLE BERNOULLI (10)`, sqlFacts{"read", 1, []string{"select"}, []string{"c.s.t"}, ""}},
		{"trino", `WITH u AS (SELECT 1) SELECT * FROM "U", C."S".t`, sqlFacts{"read", 1, []string{"select"}, []string{"c.s.t"}, ""}},
		{"trino", `DESC c.s.t`, sqlFacts{"read", 1, []string{"describe"}, []string{}, ""}},

		// Of what is not understood, the number of statements is the most it can be.
		{"trino", `SELECT TRY_CAST(a AS bigint), ';' FROM t`, sqlFacts{"write", 1, []string{"unknown"}, []string{}, "the text is not understood"}},
		{"postgres", `SELECT 'a ; b`, sqlFacts{"write", 2, []string{"unknown"}, []string{}, "a quote ' is not closed"}},
		{"postgres", ` ; -- nothing`, sqlFacts{"write", 0, []string{}, []string{}, "the text holds no statement"}},
	} {
		if diff := cmp.Diff(c.want, factsOf(t, findSQL(t, policy.GuardConfig{Dialect: c.dialect}, c.sql))); diff != "" {
			t.Errorf("%s: %s (-want +got)\n%s", c.dialect, c.sql, diff)
		}
	}
}

func TestSQLGuardRefusesSeveralStatements(t *testing.T) {
	for _, c := range []struct {
		sql     string
		refused bool
	}{
		{"SELECT 1", false},
		{"SELECT 1;", false},
		{"; SELECT 1 ; ; -- and no more", false},
		{"SELECT ';'", false},
		{"DELETE FROM t", false}, // that is for the policy to say
		{"SELECT 1; SELECT 2", true},
		{"SELECT 1; DROP TABLE t", true},
		{"SELECT 1;; FROM nonsense", true},
		{"SELECT '\\'; DROP TABLE t; --'", true}, // one or two: the server's mode says
	} {
		for _, dialect := range []string{"postgres", "mysql", "trino"} {
			if f := findSQL(t, policy.GuardConfig{Dialect: dialect, Single: true}, c.sql); (f.Refused != "") != c.refused {
				t.Errorf("%s: %s is refused for %q, want refused: %v", dialect, c.sql, f.Refused, c.refused)
			}
			if f := findSQL(t, policy.GuardConfig{Dialect: dialect, Single: false}, c.sql); f.Refused != "" {
				t.Errorf("%s: %s is refused for %q although several statements are allowed", dialect, c.sql, f.Refused)
			}
		}
	}
}

func TestSQLGuardFindsItsArgument(t *testing.T) {
	for _, c := range []struct{ arg, args, access, why string }{
		{"/sql", `{"sql": "SELECT 1"}`, "read", ""},
		{"/a/b", `{"a": {"b": "SELECT 1"}}`, "read", ""},
		{"/batch/1/sql", `{"batch": [{}, {"sql": "SELECT 1"}]}`, "read", ""},
		{"/a~1b/~0c/~01", `{"a/b": {"~c": {"~1": "SELECT 1"}}}`, "read", ""},
		{"/", `{"": "SELECT 1"}`, "read", ""},
		{"/sql", `{"sql": "SELECT 1", "other": {"sql": "DROP TABLE t"}}`, "read", ""},

		{"/sql", `{"SQL": "SELECT 1"}`, "write", "/sql is missing"},
		{"/sql", `{}`, "write", "/sql is missing"},
		{"/sql", `[]`, "write", "/sql is missing"},
		{"/sql", `"SELECT 1"`, "write", "/sql is missing"},
		{"/sql", `{"sql": null}`, "write", "/sql is not a string"},
		{"/sql", `{"sql": 1}`, "write", "/sql is not a string"},
		{"/sql", `{"sql": ["SELECT 1"]}`, "write", "/sql is not a string"},
		{"/sql", `{"sql": "SELECT 1", "sql": "DROP TABLE t"}`, "write", "/sql stands twice"},
		{"/a/b", `{"a": {"b": "SELECT 1"}, "\u0061": {}}`, "write", "/a stands twice"},
		{"/a/b", `{"a": "SELECT 1"}`, "write", "/a/b is missing"},
		{"/a/2", `{"a": ["SELECT 1"]}`, "write", "/a/2 is missing"},
		{"/a/-1", `{"a": ["SELECT 1"]}`, "write", "/a/-1 is missing"},
		{"/a/00", `{"a": ["SELECT 1"]}`, "write", "/a/00 is missing"},
		{"/sql", `{"sql": ""}`, "write", "no statement"},
		{"/sql", `{"sql": "SELECT '\ud800'"}`, "write", "not valid UTF-8"},
		{"/sql", "{\"sql\": \"SELECT '\xff'\"}", "write", "not valid UTF-8"},
		{"/sql", `{"sql": "SELECT 1"`, "write", "not JSON"},
		{"/sql", ``, "write", "not JSON"},
	} {
		f := sqlGuardOf(t, policy.GuardConfig{Arg: c.arg, Dialect: "postgres"}).Find(json.RawMessage(c.args))
		if facts := factsOf(t, f); facts.Access != c.access || !strings.Contains(facts.Why, c.why) {
			t.Errorf("%s of %s: %s because %q, want %s because of %q", c.arg, c.args, facts.Access, facts.Why, c.access, c.why)
		}
	}
}

func TestSQLGuardConfig(t *testing.T) {
	good := policy.GuardConfig{Arg: "/sql", Dialect: "mysql", Functions: []string{"my_fn", "Schema.Other$2"}}
	for _, c := range []struct {
		field string
		edit  func(*policy.GuardConfig)
	}{
		{"", func(*policy.GuardConfig) {}},
		{"arg", func(c *policy.GuardConfig) { c.Arg = "" }},
		{"arg", func(c *policy.GuardConfig) { c.Arg = "sql" }},
		{"arg", func(c *policy.GuardConfig) { c.Arg = "/a~2" }},
		{"arg", func(c *policy.GuardConfig) { c.Arg = "/a~" }},
		{"dialect", func(c *policy.GuardConfig) { c.Dialect = "" }},
		{"dialect", func(c *policy.GuardConfig) { c.Dialect = "Postgres" }},
		{"functions", func(c *policy.GuardConfig) { c.Functions = []string{"f()"} }},
		{"functions", func(c *policy.GuardConfig) { c.Functions = []string{""} }},
		{"functions", func(c *policy.GuardConfig) { c.Functions = []string{"a..b"} }},
		{"functions", func(c *policy.GuardConfig) { c.Functions = []string{"2x"} }},
	} {
		config := good
		c.edit(&config)
		_, err := newGuard(config)
		field := ""
		if err != nil {
			field = err.(*policy.FieldError).Field
		}
		if field != c.field {
			t.Errorf("%+v: fault in %q (%v), want %q", config, field, err, c.field)
		}
	}
}

func TestSQLGuardKnowsFurtherFunctions(t *testing.T) {
	for _, c := range []struct{ dialect, functions, sql, access string }{
		{"postgres", "", "SELECT my_fn(1)", "write"},
		{"postgres", "my_fn", "SELECT my_fn(1), MY_FN(2)", "read"},
		{"postgres", "my_fn", `SELECT "MY_FN"(1)`, "write"}, // another function
		{"postgres", "my_fn", "SELECT s.my_fn(1)", "write"},
		{"postgres", "s.my_fn", "SELECT s.my_fn(1)", "read"},
		{"postgres", "s.my_fn", "SELECT my_fn(1)", "write"},
		{"postgres", "mood", "SELECT 'sad'::mood", "read"},
		{"mysql", "My_Fn", "SELECT my_FN(1)", "read"},
		{"mysql", "db.my_fn", "SELECT `db`.my_fn(1)", "read"},
		{"trino", "my_fn", "SELECT my_fn(1)", "read"},
		{"trino", "c.s.my_fn", "SELECT c.s.my_fn(1)", "read"},
	} {
		config := policy.GuardConfig{Dialect: c.dialect, Functions: strings.Fields(c.functions)}
		if f := findSQL(t, config, c.sql); f.Class != c.access {
			t.Errorf("%s with %q: %s is %s (%s), want %s", c.dialect, c.functions, c.sql, f.Class, f.Facts, c.access)
		}
	}
}

func TestPointersIntoLists(t *testing.T) {
	for part, want := range map[string]string{"0": `"a"`, "1": `"b"`, "2": "", "-1": "", "00": "", "x": ""} {
		got, err := policy.Pointer{part}.Value(json.RawMessage(`["a","b"]`))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", part, got, err)
		}
	}
}

func TestSQLAtTheEdges(t *testing.T) {
	for _, c := range []struct{ dialect, sql, access string }{
		{"postgres", "SELECT À, ĀĀ FROM t", "read"}, // their last bytes are the first beyond ASCII
		{"postgres", "SELECT make_interval(days => 10)", "read"},
		{"postgres", "SELECT CAST(a AS pg_catalog.int4) FROM t", "read"},
		{"postgres", "SELECT CAST(a AS public.int4) FROM t", "write"}, // somebody's own type of that name
		{"mysql", "SELECT 1 --", "read"},
		{"mysql", "SELECT 1 --\n", "read"},
		{"mysql", "SELECT 1 --2", "write"},
	} {
		if got := factsOf(t, findSQL(t, policy.GuardConfig{Dialect: c.dialect}, c.sql)); got.Access != c.access {
			t.Errorf("%s: %s because %q, want %s", c.sql, got.Access, got.Why, c.access)
		}
	}
	text, err := scanSQL("'x' select; \"y\" z; w", sqlLexis{})
	if err != nil {
		t.Fatal(err)
	}
	var first []string
	for _, s := range text.statements {
		first = append(first, s.first)
	}
	if diff := cmp.Diff([]string{"'", `"`, "w"}, first); diff != "" {
		t.Errorf("what statements begin with (-want +got):\n%s", diff)
	}
}
